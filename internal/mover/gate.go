package mover

// Limits bound what is under way at a time, everybody's relocations and recoveries counted. 0 is no limit of ours; the
// server's own limits hold in any case.
type Limits struct {
	PerNodeIn     int   // relocations and recoveries arriving at a node
	PerNodeOut    int   // leaving a node; a replica's data leaves from its primary's node
	Cluster       int   // in the whole cluster
	BytesInFlight int64 // in the whole cluster
	PerIndex      int   // of one index
	PerZonePair   int   // from one zone to another one, each direction on its own; within a zone does not count
	PerRequest    int   // commands in one request
	Pause         []Window
}

// Window is a span of a day in which no move is asked for, in minutes after midnight UTC; From > To goes over midnight.
type Window struct{ From, To int }
