package mux

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

func matches(path string) bool {
	return regexp.MustCompile("^/").MatchString(path)
}

// groupName builds a capturing group name for the indexed variable.
func groupName(idx int) string {
	return fmt.Sprintf("v%d", idx)
}

type group struct {
	host *url.URL
	vars []string
}

func (g *group) set(req *http.Request, names []string) {
	if g.host != nil {
		at := 0
		for i, name := range names[1:] {
			if name == groupName(at) {
				g.vars[at] = strings.ToLower(names[i+1])
				at++
			}
		}
	}
}
