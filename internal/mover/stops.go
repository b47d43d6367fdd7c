package mover

import "time"

// Stops are the limits past which the cluster is left alone.
type Stops struct {
	AllowYellow   bool          // move although unassigned copies wait for nodes that do not exist
	Settle        time.Duration // after a node joined or left
	PendingTasks  int           // of the master; 0 is no limit
	TaskWait      time.Duration // of the oldest; 0 is no limit
	CPU           float64       // ratio, of either node of a move; 0 is no limit
	Rejections    float64       // per second, of either node of a move; 0 is no limit
	Storm         int           // relocations of others at a time; 0 is no limit
	DiskMargin    int64         // bytes kept free at a target beyond the low watermark
	Calm          time.Duration // after a storm, in which half the limits hold
	UndoneAllowed int           // moves undone by others before we stop
}

// Stop is why nothing more is asked for.
type Stop struct {
	Kind   StopKind
	Text   string // what is so
	Cure   string // what ends it
	Freeze bool   // the cluster has to settle: half the limits hold for a while after it
}

// StopKind sorts stops.
type StopKind string
