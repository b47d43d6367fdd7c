// Package whatif turns the snapshot of a cluster into that of the same cluster as it might be: with another node, without
// one, after the loss of a zone, under another load. What follows from it is for the ordinary model, search and plan to say.
package whatif
