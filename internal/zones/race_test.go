//go:build race

package zones

// everyPoint is which of the points of a story are played: with the race detector, which takes ten times the time, some.
const everyPoint = 24
