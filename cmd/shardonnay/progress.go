package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// progress tells a waiting person on standard error what is going on, from the third second on.
type progress struct {
	out     *os.File
	live    bool
	started time.Time
	shown   bool
}

// quietFor is how long nothing is said: what is done sooner needs no comment.
const quietFor = 2 * time.Second

func newProgress(out *os.File) *progress {
	return &progress{out: out, live: isTerminal(out), started: time.Now()}
}

// say shows a line, over the one before where a person watches.
func (p *progress) say(text string, args ...any) {
	line := fmt.Sprintf(text, args...)
	if p.live {
		fmt.Fprintf(p.out, "\r\x1b[K%s ...", line)
		p.shown = true
	} else if time.Since(p.started) > quietFor {
		fmt.Fprintf(p.out, "%s ...\n", line)
	}
}

// wait lets d pass and shows how much is left.
func (p *progress) wait(ctx context.Context, d time.Duration, text string) error {
	end := time.Now().Add(d)
	if !p.live {
		fmt.Fprintf(p.out, "%s, %s\n", text, d)
	}
	for left := d; left > 0; left = time.Until(end) {
		if p.live {
			p.say("%s, %s left", text, left.Round(time.Second))
		}
		timer := time.NewTimer(min(left, time.Second))
		select {
		case <-ctx.Done():
			timer.Stop()
			return &cluster.Error{Class: cluster.Interrupted, Op: text, Err: context.Cause(ctx), Hint: "Nothing was changed"}
		case <-timer.C:
		}
	}
	return nil
}

// done clears the line.
func (p *progress) done() {
	if p.live && p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}
