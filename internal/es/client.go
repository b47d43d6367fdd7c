package es

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/opensearch-project/opensearch-go/v4/opensearchtransport"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Client speaks to one cluster. It is safe for concurrent use.
type Client struct {
	config  Config
	seeds   []*seed
	current atomic.Int64 // position of the seed that answered last; writes go there
	timeout time.Duration
	retries int
	backoff time.Duration // before the first repeated round of a read; doubles, and is jittered
	secrets []string      // never to appear in an error, whoever echoes them
	product atomic.Pointer[cluster.Product]

	reads, writes, repeats, failures, received, sent atomic.Int64
}

// seed is one address. Each has a transport of its own: opensearch-go's pool would otherwise choose the address, and
// mark, probe and resurrect addresses in the background, which none of the promises made here could be built on.
type seed struct {
	url       *url.URL // without credentials
	transport *opensearchtransport.Client
}

// New makes a client; it reads the certificate files and sends nothing. A configuration that cannot work is an error of
// class Invalid.
func New(config Config) (*Client, error) {
	c := &Client{config: config, timeout: config.Timeout, retries: config.ReadRetries, backoff: firstBackoff}
	if c.timeout <= 0 {
		c.timeout = defaultTimeout
	}
	if c.retries == 0 {
		c.retries = defaultReadRetries
	}
	if err := c.connect(config); err != nil {
		return nil, err
	}
	return c, nil
}

// Close releases connections.
func (c *Client) Close() error {
	for _, s := range c.seeds {
		if err := s.transport.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Read sends a GET, with retries, and hands the decompressed body to decode. Only the asking is repeated: once decode
// has begun it is not called again, so it may append to what it builds. A 408 of a health wait is not an error. An
// answer that decode cannot read is an error of class Incomplete that names the request and the place.
func (c *Client) Read(ctx context.Context, path string, query url.Values, decode func(io.Reader) error) error {
	return c.read(ctx, request{method: http.MethodGet, path: path, query: query}, decode)
}

// ReadJSON is Read into a Go value through encoding/json: for small answers.
func (c *Client) ReadJSON(ctx context.Context, path string, query url.Values, into any) error {
	return c.Read(ctx, path, query, func(body io.Reader) error { return json.NewDecoder(body).Decode(into) })
}

// Send sends a write exactly once: to one address, with no retry on any layer. body is marshalled, nil sends none; into
// may be nil. OutcomeUnknown tells whether a failed write may have been applied.
func (c *Client) Send(ctx context.Context, method, path string, query url.Values, body, into any) error {
	return c.send(ctx, method, path, query, body, func(answer io.Reader) error {
		if into == nil {
			_, err := io.Copy(io.Discard, answer)
			return err
		}
		return json.NewDecoder(answer).Decode(into)
	})
}

func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any, decode func(io.Reader) error) error {
	req := request{method: method, path: path, query: query}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return &cluster.Error{Class: cluster.Internal, Op: "write the body of", What: method + " " + path, Err: err}
		}
		req.body = text
	}
	c.writes.Add(1)
	at := c.current.Load()
	wrote, err := c.once(ctx, c.seeds[at], req, decode)
	if err != nil && anotherSeedMayHelp(err) {
		c.current.CompareAndSwap(at, (at+1)%int64(len(c.seeds))) // for the next request, not for this one
	}
	if err != nil && wrote && mayHaveBeenApplied(err) {
		err = &lostOutcome{err}
	}
	return err
}

// Traffic counts what the client did since it was made.
type Traffic struct {
	Reads, Writes, Retries, Failures int64
	BytesReceived, BytesSent         int64 // bodies as they travelled
}

// Requests is the traffic so far.
func (c *Client) Requests() Traffic {
	return Traffic{
		Reads: c.reads.Load(), Writes: c.writes.Load(), Retries: c.repeats.Load(), Failures: c.failures.Load(),
		BytesReceived: c.received.Load(), BytesSent: c.sent.Load(),
	}
}

// request is one question or order, whichever seed it goes to.
type request struct {
	method, path string
	query        url.Values
	body         []byte
}

// read asks one seed after the other while none can be reached, and starts again after a pause when the cluster, or
// whatever stands before it, says that it is a matter of time.
func (c *Client) read(ctx context.Context, req request, decode func(io.Reader) error) error {
	c.reads.Add(1)
	for round := 0; ; round++ {
		var err error
		start := int(c.current.Load())
		for i := range c.seeds {
			at := (start + i) % len(c.seeds)
			if _, err = c.once(ctx, c.seeds[at], req, decode); err == nil {
				c.current.Store(int64(at))
				return nil
			}
			if !anotherSeedMayHelp(err) || ctx.Err() != nil {
				break
			}
		}
		pause, again := c.pause(err, round)
		if !again || round >= c.retries || !wait(ctx, pause) {
			return err
		}
		c.repeats.Add(1)
		c.current.CompareAndSwap(int64(start), int64((start+1)%len(c.seeds)))
	}
}

// once sends req to one seed and hands a good answer to decode. wrote tells whether any of the request left this
// machine.
func (c *Client) once(ctx context.Context, s *seed, req request, decode func(io.Reader) error) (wrote bool, err error) {
	defer func() {
		if err != nil {
			c.failures.Add(1)
		}
	}()
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var headersWritten atomic.Bool
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{WroteHeaders: func() { headersWritten.Store(true) }})
	asked, err := req.http(traced)
	if err != nil {
		return false, &cluster.Error{Class: cluster.Internal, Op: "build", What: req.method + " " + req.path, Err: err}
	}
	c.sent.Add(int64(len(req.body)))
	answer, err := s.transport.Stream(asked)
	if answer == nil {
		return headersWritten.Load(), c.failed(ctx, s, req, unwrapTransport(err))
	}
	defer answer.Body.Close()
	body, err := c.body(answer)
	if err != nil {
		return true, unreadable(s, req, err)
	}
	if !accepted(req, answer.StatusCode) {
		return true, c.refused(s, req, answer, body)
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
		return true, notACluster(s, req, "it answers with a web page, as a proxy or a login page does")
	}
	if err := decode(body); err != nil {
		if cause := body.err; cause != nil && !errors.Is(cause, io.EOF) && !isCut(cause) {
			return true, c.failed(ctx, s, req, cause) // the network and not the text is at fault
		}
		return true, unreadable(s, req, err)
	}
	return true, nil
}

func (r request) http(ctx context.Context) (*http.Request, error) {
	target := url.URL{Path: r.path, RawQuery: r.query.Encode()}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	asked, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
	if err != nil {
		return nil, err
	}
	asked.Header.Set("Accept", "application/json")
	// Asked for by hand, for Traffic to count what went over the wire.
	asked.Header.Set("Accept-Encoding", "gzip")
	if r.body != nil {
		asked.Header.Set("Content-Type", "application/json")
	}
	return asked, nil
}

// accepted tells whether the status carries the answer asked for. A health wait that was not met in time has its normal
// body behind a 408.
func accepted(r request, status int) bool {
	return status/100 == 2 || status == http.StatusRequestTimeout && r.path == healthPath
}

// answerBody is an answer's body, decompressed, with the error that ended it.
type answerBody struct {
	io.Reader
	err error
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil {
		b.err = err
	}
	return n, err
}

func (c *Client) body(answer *http.Response) (*answerBody, error) {
	counted := io.Reader(&countingReader{answer.Body, &c.received})
	if answer.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(counted)
		if err != nil {
			return nil, fmt.Errorf("the compressed answer cannot be unpacked: %w", err)
		}
		counted = unpacked
	}
	return &answerBody{Reader: counted}, nil
}

type countingReader struct {
	io.Reader
	total *atomic.Int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.total.Add(int64(n))
	return n, err
}

// basicAuth is the Authorization header of a name and a password.
func basicAuth(username, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}
