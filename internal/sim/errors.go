package sim

import "fmt"

// apiError is an error as the servers word it.
type apiError struct {
	status   int
	kind     string // "illegal_argument_exception"
	reason   string
	nullText bool   // the reason is JSON null
	plain    bool   // the error is a bare string
	alone    bool   // ... and no status comes with it
	index    string // index the error is about
	message  bool   // a gateway's {"Message": ".."} in place of the product's shape
}

func (e *apiError) Error() string { return e.kind + ": " + e.reason }

func illegal(format string, args ...any) *apiError {
	return &apiError{status: 400, kind: "illegal_argument_exception", reason: fmt.Sprintf(format, args...)}
}

func badJSON(format string, args ...any) *apiError {
	return &apiError{status: 400, kind: "x_content_parse_exception", reason: fmt.Sprintf(format, args...)}
}

func noIndex(name string) *apiError {
	return &apiError{status: 404, kind: "index_not_found_exception", reason: fmt.Sprintf("no such index [%s]", name), index: name}
}

// write puts the error into a document of its own.
func (e *apiError) write(w *jsonWriter) {
	if !w.obj("") {
		return
	}
	if e.message {
		w.str("Message", e.reason)
		w.end()
		return
	}
	if e.plain {
		w.str("error", e.reason)
		if !e.alone {
			w.int("status", int64(e.status))
		}
		w.end()
		return
	}
	detail := func() {
		w.str("type", e.kind)
		if e.nullText {
			w.null("reason")
		} else {
			w.str("reason", e.reason)
		}
		if e.index != "" {
			w.str("index", e.index)
			w.str("resource.type", "index_or_alias")
			w.str("resource.id", e.index)
		}
	}
	if w.obj("error") {
		if w.arr("root_cause") {
			if w.obj("") {
				detail()
				w.end()
			}
			w.end()
		}
		detail()
		w.end()
	}
	w.int("status", int64(e.status))
	w.end()
}
