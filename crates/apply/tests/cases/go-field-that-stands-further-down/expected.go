package pool

type worker struct {
	name    string
	pending chan job
	onError func(err error) time.Duration
}

func (w *worker) run() {
	w.onError(nil)
}
