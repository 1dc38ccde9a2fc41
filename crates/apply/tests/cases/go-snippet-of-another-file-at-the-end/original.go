package web

import "net/http"

func Serve() error {
	return http.ListenAndServe(":80", nil)
}
