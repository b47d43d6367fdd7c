package es

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	firstBackoff = 250 * time.Millisecond // doubles with each round
	// longestPause bounds how long a server can make a read wait by Retry-After: a cycle has better things to do, and
	// the next one asks again.
	longestPause = 30 * time.Second
)

// pause is how long to wait before a further round after err, and whether there should be one: for 429, 502, 503, 504
// and for connections that could not be made. A request that timed out is not repeated: what was too much for the
// cluster a moment ago would be twice too much now.
func (c *Client) pause(err error, round int) (time.Duration, bool) {
	jittered := time.Duration(float64(c.backoff<<round) * (0.5 + rand.Float64()/2))
	if status, ok := errors.AsType[*StatusError](err); ok {
		switch status.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return min(max(jittered, status.retryAfter), longestPause), true
		}
		return 0, false
	}
	var network *networkError
	return jittered, errors.As(err, &network) && !network.timeout && !network.final
}

// anotherSeedMayHelp tells whether the next address is worth asking at once: this one could not be reached or hung.
func anotherSeedMayHelp(err error) bool {
	var network *networkError
	return errors.As(err, &network) && !network.final
}

// wait sleeps for d; false when ctx ends before, or would.
func wait(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// retryAfter reads the header of that name: seconds or a date.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
