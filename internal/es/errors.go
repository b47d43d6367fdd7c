package es

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// StatusError is an answer other than 2xx, wrapped inside a *cluster.Error.
type StatusError struct {
	Status int    // HTTP status
	Type   string // the server's exception type, may be empty
	Reason string // the server's words, clipped; may be empty

	retryAfter time.Duration
}

// Error is one line: "HTTP 403 security_exception: action [...] is unauthorized".
func (e *StatusError) Error() string {
	text := fmt.Sprintf("HTTP %d", e.Status)
	if e.Type != "" {
		text += " " + e.Type
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// networkError is a request that got no answer.
type networkError struct {
	err     error
	timeout bool // it took too long
	final   bool // asking again or elsewhere would end the same: certificates, a caller who has gone
}

func (e *networkError) Error() string { return e.err.Error() }
func (e *networkError) Unwrap() error { return e.err }

// lostOutcome marks the failure of a write that may have been applied all the same.
type lostOutcome struct{ err error }

func (e *lostOutcome) Error() string {
	return e.err.Error() + " It may have been applied all the same."
}
func (e *lostOutcome) Unwrap() error { return e.err }

// OutcomeUnknown tells whether the write that failed with err may nevertheless have been applied: the answer was lost,
// came too late, was a 5xx or could not be read.
func OutcomeUnknown(err error) bool {
	var lost *lostOutcome
	return errors.As(err, &lost)
}

// mayHaveBeenApplied is OutcomeUnknown's judgement on a write that left this machine. A 4xx is the server's word that
// it did nothing; all else leaves the question open.
func mayHaveBeenApplied(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Status/100 != 4 || status.Status == http.StatusRequestTimeout
	}
	return true
}

func (r request) name(s *seed) string {
	where := strings.TrimSuffix(s.url.String(), "/") + r.path
	if r.method == http.MethodGet {
		return where
	}
	return r.method + " " + where
}

func (r request) op() string {
	if r.method == http.MethodGet {
		return "read"
	}
	return "send"
}

func (r request) error(s *seed, class cluster.Class, why error, cure string) *cluster.Error {
	return &cluster.Error{Class: class, Op: r.op(), What: r.name(s), Err: why, Hint: cure}
}

// unwrapTransport takes the method and the address off that opensearch-go and net/http put before an error: ours are
// there already.
func unwrapTransport(err error) error {
	for {
		if named, ok := errors.AsType[*url.Error](err); ok {
			err = named.Err
			continue
		}
		inner := errors.Unwrap(err)
		if inner == nil || !strings.HasPrefix(err.Error(), `"`) {
			return err
		}
		err = inner
	}
}

// failed turns a request without an answer into an error with a cure.
func (c *Client) failed(ctx context.Context, s *seed, r request, err error) error {
	class, cure, final := cluster.Unavailable, "", false
	var (
		unknownAuthority x509.UnknownAuthorityError
		wrongName        x509.HostnameError
		invalid          x509.CertificateInvalidError
		verification     *tls.CertificateVerificationError
		alert            tls.AlertError
		record           tls.RecordHeaderError
		name             *net.DNSError
		timeout          net.Error
	)
	text := err.Error()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		class, final = cluster.Interrupted, true
		err = context.Canceled
	case errors.As(err, &unknownAuthority):
		class, final = cluster.Refused, true
		cure = "Give the file of the authority that signed the cluster's certificate as ca_file."
	case errors.As(err, &wrongName):
		class, final = cluster.Refused, true
		cure = "Use an address that the certificate names, or have one issued for this address."
	case errors.As(err, &invalid), errors.As(err, &verification):
		class, final = cluster.Refused, true
		cure = "Renew the cluster's certificate, or look at this machine's clock."
	case errors.As(err, &alert), strings.Contains(text, "remote error: tls:"):
		class, final = cluster.Refused, true
		cure = "The cluster wants a client certificate it knows: set client_cert_file and client_key_file."
	case errors.As(err, &record), strings.Contains(text, "server gave HTTP response to HTTPS client"):
		class, final = cluster.Refused, true
		cure = "It does not speak TLS there: use http:// in the address, or the port that does."
	case strings.Contains(text, "malformed HTTP response"):
		class, final = cluster.Refused, true
		cure = "It does not speak HTTP there: use https:// if it is TLS, or the port of the REST interface (usually 9200)."
	case errors.As(err, &name):
		cure = "Check the host name in the address, and that it can be looked up from here."
	case errors.Is(err, syscall.ECONNREFUSED):
		cure = "Check host and port, and that the cluster is running."
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		late := &renamed{fmt.Sprintf("no answer within %v", c.timeout), err}
		if ctx.Err() != nil {
			late.text = "no answer in the time given"
		}
		return r.error(s, class, &networkError{err: late, timeout: true, final: ctx.Err() != nil},
			"Check that the cluster is well and reachable from here, or raise the timeout.")
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		cure = "The connection was closed: check that the cluster is well, and use https:// if it is TLS that it speaks."
	case strings.Contains(text, "failed to sign"):
		class, final = cluster.Refused, true
		cure = "Check that AWS credentials can be found: environment, shared files, or the role of this machine."
	default:
		cure = "Check that the cluster is running and reachable from here."
	}
	return r.error(s, class, &networkError{err: c.redacted(err), final: final}, cure)
}

// renamed is an error in better words.
type renamed struct {
	text string
	err  error
}

func (e *renamed) Error() string { return e.text }
func (e *renamed) Unwrap() error { return e.err }

// redacted is err with our secrets blacked out, should somebody have echoed them.
func (c *Client) redacted(err error) error {
	if text := c.redact(err.Error()); text != err.Error() {
		return &renamed{text, err}
	}
	return err
}

func (c *Client) redact(text string) string {
	for _, secret := range c.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// refused turns an answer that is not a 2xx into an error with a cure.
func (c *Client) refused(s *seed, r request, answer *http.Response, body io.Reader) error {
	const enough = 64 << 10 // of an error's body
	text, _ := io.ReadAll(io.LimitReader(body, enough))
	status := &StatusError{Status: answer.StatusCode, retryAfter: retryAfter(answer.Header)}
	html := strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") || strings.HasPrefix(strings.TrimSpace(string(text)), "<")
	managed := false
	if html {
		status.Reason = "a web page, from something in front of the cluster"
	} else {
		status.Type, status.Reason, managed = parseError(text)
		status.Type, status.Reason = clip(c.redact(status.Type)), strings.TrimSuffix(clip(c.redact(status.Reason)), ".")
	}
	class, cure := c.judge(r, status, html, managed, answer.Header.Get("Location"))
	return r.error(s, class, status, cure)
}

// judge is the table of statuses.
func (c *Client) judge(r request, status *StatusError, html, managed bool, location string) (cluster.Class, string) {
	switch code := status.Status; {
	case code/100 == 3:
		if to, err := url.Parse(location); err == nil && to.Host != "" {
			return cluster.Refused, "It sends us on to " + to.Scheme + "://" + to.Host + ": use the cluster's own address."
		}
		return cluster.Refused, "It sends us elsewhere: use the cluster's own address."
	case managed:
		return cluster.Refused, "A managed service does not allow this request: run in dry-run mode there, which only reads."
	case code == http.StatusUnauthorized:
		return cluster.Refused, "Check user name and password, API key or signing: the cluster does not know us."
	case code == http.StatusForbidden:
		return cluster.Refused, "Give the user the privilege " + privilege(r, status.Reason) + "."
	case code == http.StatusTooManyRequests:
		return cluster.Unavailable, "The cluster has more to do than it can: wait, or look at its circuit breakers and queues."
	case code == http.StatusServiceUnavailable && noMaster(status.Type+status.Reason):
		return cluster.Unavailable, "The cluster has no elected master: bring its master-eligible nodes back first."
	case code == http.StatusProxyAuthRequired:
		return cluster.Refused, "A proxy stands between: exempt the cluster with NO_PROXY, or give the proxy what it asks for."
	case code/100 == 5:
		if html {
			return cluster.Unavailable, "Whatever stands in front of the cluster cannot reach it: look there, and at the cluster."
		}
		return cluster.Unavailable, "Look at the cluster's health and its log."
	case html:
		return cluster.Refused, "This is not a search cluster, or a proxy keeps us from it: check the address."
	case strings.Contains(status.Reason, "HTTP request to an HTTPS server"), strings.Contains(status.Reason, "plain HTTP request was sent to HTTPS"):
		return cluster.Refused, "Use https:// in the address."
	case r.method == http.MethodGet:
		return cluster.Refused, "Check that the address is that of an Elasticsearch or OpenSearch cluster of a supported version."
	}
	return cluster.Rejected, "The cluster did nothing; its reason says why."
}

func noMaster(text string) bool {
	return strings.Contains(text, "master_not_discovered") || strings.Contains(text, "cluster_manager_not_discovered") ||
		strings.Contains(text, "no master") || strings.Contains(text, "no known master")
}

// missing finds the action a security plugin names in its refusal: "action [cluster:admin/reroute] is unauthorized" and
// "no permissions for [cluster:admin/reroute]".
var missing = regexp.MustCompile(`(?:action|permissions for) \[([^\]]+)\]`)

// privilege is what the user probably lacks: the server's word where it gives one, else what such requests need.
func privilege(r request, reason string) string {
	if found := missing.FindStringSubmatch(reason); found != nil {
		return found[1] + " (on Elasticsearch part of " + elasticPrivilege(r) + ")"
	}
	action := "cluster:monitor/*"
	switch {
	case strings.HasPrefix(r.path, "/_cluster/reroute"):
		action = "cluster:admin/reroute"
	case strings.HasPrefix(r.path, "/_cluster/settings") && r.method != http.MethodGet:
		action = "cluster:admin/settings/update"
	case strings.Contains(r.path, "_settings"), strings.HasPrefix(r.path, "/_data_stream"), strings.HasPrefix(r.path, "/_alias"):
		action = "indices:monitor/* and indices:admin/get on all indices"
	}
	return action + " (on Elasticsearch " + elasticPrivilege(r) + ")"
}

func elasticPrivilege(r request) string {
	switch {
	case r.method != http.MethodGet, strings.HasPrefix(r.path, "/_internal"):
		return "the cluster privilege manage"
	case strings.Contains(r.path, "_settings") && !strings.HasPrefix(r.path, "/_cluster"),
		strings.HasPrefix(r.path, "/_data_stream"), strings.HasPrefix(r.path, "/_alias"):
		return "the index privilege view_index_metadata on *"
	}
	return "the cluster privilege monitor"
}

// parseError reads an error's body: {"error":{"type","reason","root_cause"}}, {"error":"text"}, AWS's {"Message":".."}
// (managed), or whatever text it is. reason may be null.
func parseError(body []byte) (kind, reason string, managed bool) {
	r := newReader(strings.NewReader(string(body)))
	r.object(func(name string) {
		switch name {
		case "error":
			if r.kind() == '{' {
				r.object(func(name string) {
					switch name {
					case "type":
						kind = r.text()
					case "reason":
						reason = r.text()
					}
				})
			} else {
				reason = r.text()
			}
		case "message":
			reason = r.text()
		case "Message":
			reason, managed = r.text(), true
		}
	})
	if r.finish() != nil && kind == "" && reason == "" {
		reason = string(body)
	}
	return kind, reason, managed
}

// unreadable is an answer that came and is not what it should be.
func unreadable(s *seed, r request, err error) error {
	if _, ok := errors.AsType[*cluster.Error](err); ok {
		return err // the decoder knew better
	}
	return r.error(s, cluster.Incomplete, err,
		"The answer was cut off or is not JSON: ask again, and look for a proxy in between that limits size or time.")
}

func isCut(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }

func notACluster(s *seed, r request, why string) error {
	return r.error(s, cluster.Refused, errors.New(why),
		"This is not an Elasticsearch or OpenSearch cluster: check the address.")
}
