package queue

import "errors"

var ErrEmpty = errors.New("empty")

type Queue struct {
	items []string
}

func (q *Queue) Push(item string) {
	q.items = append(q.items, item)
}

func (q *Queue) Pop() (string, error) {
	if len(q.items) == 0 {
		return "", ErrEmpty
	}
	item := q.items[0]
	q.items = q.items[1:]
	return item, nil
}
