package sim

import (
	"container/heap"
	"context"
	"time"
)

// event is something the cluster does by itself at a known time.
type event struct {
	at time.Duration
	no uint64 // first scheduled goes first
	do func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].no < h[j].no
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// after schedules do for d from now.
func (c *Cluster) after(d time.Duration, do func()) {
	c.eventNo++
	heap.Push(&c.events, event{at: c.now + max(d, 0), no: c.eventNo, do: do})
}

// Advance lets d of virtual time pass. What happens in between happens in order: recoveries end, delays expire,
// indices grow old, the master looks at the disks. Between events nothing is computed: counters are rates times time.
func (c *Cluster) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(d)
}

func (c *Cluster) advance(d time.Duration) {
	end := c.now + d
	for {
		next, fromHeap := time.Duration(-1), false
		if len(c.events) > 0 {
			next, fromHeap = c.events[0].at, true
		}
		if c.nextEnd >= 0 && (next < 0 || c.nextEnd <= next) {
			next, fromHeap = c.nextEnd, false
		}
		if next < 0 || next > end {
			break
		}
		c.now = max(c.now, next)
		if fromHeap {
			heap.Pop(&c.events).(event).do()
		} else {
			c.endRecoveries()
		}
	}
	c.now = max(c.now, end)
}

// At schedules a change of the cluster's circumstances for the given time from now: what a scenario calls an event.
// do runs while time stands still and may use every exported method except those that pass time.
func (c *Cluster) At(d time.Duration, do func(*Cluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedule(d, do)
}

// WhenMoving is At for a time that counts from the start of the next relocation.
func (c *Cluster) WhenMoving(d time.Duration, do func(*Cluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.whenMoving = append(c.whenMoving, later{d, do})
}

// later is a change that waits for its time to start running.
type later struct {
	d  time.Duration
	do func(*Cluster)
}

func (c *Cluster) schedule(d time.Duration, do func(*Cluster)) {
	c.after(d, func() {
		c.mu.Unlock()
		defer c.mu.Lock()
		do(c)
	})
}

// Sleep passes d of virtual time: at once where nobody else drives the clock, else by waiting for the server to get
// there. A daemon under simulation waits with it in place of time.Sleep.
func (c *Cluster) Sleep(ctx context.Context, d time.Duration) error {
	return c.waitFor(ctx, d, func() bool { return false })
}

// waitFor passes virtual time until done says so or d is over; done is called with the lock held. Whether it was done
// in time is for the caller to see again. It fails only with the context.
func (c *Cluster) waitFor(ctx context.Context, d time.Duration, done func() bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.now + d
	for !done() && c.now < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		server := c.served.Load()
		if server == nil || server.speed <= 0 {
			step := end - c.now
			if c.nextEnd >= 0 {
				step = min(step, c.nextEnd-c.now)
			}
			if len(c.events) > 0 {
				step = min(step, c.events[0].at-c.now)
			}
			c.advance(max(step, 0))
			continue
		}
		wait := server.wall(end - c.now)
		changed := c.changed
		c.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
		server.catchUp()
		c.mu.Lock()
	}
	return ctx.Err()
}
