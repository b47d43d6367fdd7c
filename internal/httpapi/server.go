package httpapi

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/page"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/zones"
)

// Daemon is what the server asks of the loop. All methods may be called at any time.
type Daemon interface {
	// Alive is nil while the loop ticks, else what is wrong with it.
	Alive(now time.Time) error
	// Ready says in a word or two that the last snapshot was complete and ownership is as configured, or that all is well
	// and another instance leads; the error is what is missing.
	Ready() (string, error)
	// Latest is the summary of the last cycle, nil before the first.
	Latest() *rebalance.Summary
	// Paused tells whether moving is paused.
	Paused() bool
	// Pause and Resume stop and restart moving; both may be called twice.
	Pause()
	Resume()
}

// Options say what is served.
type Options struct {
	Metrics http.Handler
	Debug   bool   // serve the snapshot and the problem
	Token   string // bearer token for pause and resume; empty turns them off

	// What the status says beside what the loop knows.
	Cluster  cluster.Identity
	Mode     rebalance.Mode
	Interval time.Duration // between cycles
	Started  time.Time     // the daemon

	// Zones is what the zone controller has last seen; nil where there is none, or before its first look.
	Zones *zones.Status
}

// Handler serves the daemon's HTTP interface.
func Handler(daemon Daemon, past *history.History, o func() Options) http.Handler {
	mux := http.NewServeMux()
	servePage(mux)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) { o().Metrics.ServeHTTP(w, r) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { status(w, "ok", daemon.Alive(time.Now())) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, err := daemon.Ready()
		status(w, ready, err)
	})
	mux.HandleFunc("GET /api/v1/plan", func(w http.ResponseWriter, _ *http.Request) {
		document(w, daemon.Latest(), func(s *rebalance.Summary) (*plan.Plan, bool) { return s.Plan, s.Plan != nil })
	})
	mux.HandleFunc("GET /api/v1/status", func(w http.ResponseWriter, _ *http.Request) {
		options := o()
		writeJSON(w, http.StatusOK, statusOf(daemon, past, &options, time.Now()))
	})
	mux.HandleFunc("GET /api/v1/history", func(w http.ResponseWriter, r *http.Request) {
		since, ok := number(w, r, "since")
		if !ok {
			return
		}
		dimension, known := r.URL.Query().Get("dimension"), past.Dimensions()
		if dimension != "" && len(known) > 0 && !slices.Contains(known, dimension) {
			problem(w, http.StatusBadRequest, fmt.Sprintf("there is no dimension %q; there are %s", dimension, strings.Join(known, ", ")))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = past.WriteHeat(w, dimension, time.UnixMilli(int64(since))) // the client is gone: there is nobody to tell
	})
	mux.HandleFunc("GET /api/v1/moves", func(w http.ResponseWriter, r *http.Request) {
		if after, ok := number(w, r, "after"); ok {
			writeJSON(w, http.StatusOK, past.Moves(after))
		}
	})
	serveZones(mux, o)
	debug := func(show http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if !o().Debug {
				problem(w, http.StatusNotFound, "this is off; set http.debug to true to see it")
				return
			}
			show(w, r)
		}
	}
	mux.HandleFunc("GET /api/v1/snapshot", debug(func(w http.ResponseWriter, _ *http.Request) {
		document(w, daemon.Latest(), func(s *rebalance.Summary) (*cluster.Snapshot, bool) { return s.Snapshot, s.Snapshot != nil })
	}))
	mux.HandleFunc("GET /api/v1/problem", debug(func(w http.ResponseWriter, _ *http.Request) {
		document(w, daemon.Latest(), func(s *rebalance.Summary) (*model.Problem, bool) { return s.Problem, s.Problem != nil })
	}))
	guarded := func(act func(), done string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			token := o().Token
			switch {
			case token == "":
				problem(w, http.StatusNotFound, "this is off; set http.token_file to allow it")
			case subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) != 1:
				w.Header().Set("WWW-Authenticate", "Bearer")
				problem(w, http.StatusUnauthorized, "send the token of http.token_file as Authorization: Bearer TOKEN")
			default:
				act()
				writeJSON(w, http.StatusOK, map[string]string{"status": done})
			}
		}
	}
	mux.HandleFunc("POST /api/v1/pause", guarded(daemon.Pause, "paused"))
	mux.HandleFunc("POST /api/v1/resume", guarded(daemon.Resume, "resumed"))
	return securityHeaders(compressed(mux))
}

// compressed answers in gzip to those who can read that: quickly, since a day of history is megabytes, and what a better
// compression would save on the way it costs before.
func compressed(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil {
		panic("httpapi: the level is one of gzip's: " + err.Error())
	}
	return wrap(next)
}

// servePage serves the page at / and its files beside it.
func servePage(mux *http.ServeMux) {
	files := page.Files()
	serve := http.FileServerFS(files)
	names, err := fs.Glob(files, "*")
	if err != nil || len(names) == 0 {
		panic("httpapi: the page was built without its files")
	}
	mux.Handle("GET /{$}", serve)
	for _, name := range names {
		mux.Handle("GET /"+name, serve)
	}
}

// number reads a parameter of the query, 0 where it is not given; where it is no number it answers for us.
func number(w http.ResponseWriter, r *http.Request, name string) (uint64, bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, true
	}
	value, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		problem(w, http.StatusBadRequest, fmt.Sprintf("%s is %q; it has to be a number", name, text))
	}
	return value, err == nil
}

// policy lets the page load and ask nothing but this server, run nothing inline, and be framed by nobody.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func status(w http.ResponseWriter, well string, err error) {
	if err != nil {
		problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": well})
}

// document writes the part of the latest summary that pick chooses, where there is one.
func document[T any](w http.ResponseWriter, latest *rebalance.Summary, pick func(*rebalance.Summary) (T, bool)) {
	if latest != nil {
		if value, ok := pick(latest); ok {
			writeJSON(w, http.StatusOK, value)
			return
		}
	}
	problem(w, http.StatusServiceUnavailable, "no cycle has come that far yet")
}

func problem(w http.ResponseWriter, code int, text string) {
	writeJSON(w, code, map[string]string{"error": text})
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // the client is gone: there is nobody to tell
}

// Server is a listening server.
type Server struct {
	http *http.Server
	addr net.Addr
	done chan error
}

// Listen binds the address and serves until Close.
func Listen(address string, handler http.Handler) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &cluster.Error{
			Class: cluster.Invalid, Op: "listen on", What: address, Err: err, Hint: "Choose a free address in http.listen",
		}
	}
	s := &Server{
		// A reader that dawdles must not hold a connection for ever; a scrape of 750 nodes takes well under a second.
		http: &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute},
		addr: listener.Addr(), done: make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(listener) }()
	return s, nil
}

// URL is where the server listens, "http://127.0.0.1:9750".
func (s *Server) URL() string { return "http://" + s.addr.String() }

// Close ends the server: open answers are finished first, as long as ctx lasts.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if serveErr := <-s.done; serveErr != nil && !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve http: %w", serveErr))
	}
	return err
}
