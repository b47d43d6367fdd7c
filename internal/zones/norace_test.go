//go:build !race

package zones

// everyPoint is which of the points of a story are played: all.
const everyPoint = 1
