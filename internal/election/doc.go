// Package election elects one of several instances by a Kubernetes Lease.
//
// It decides who may run cycles, nothing else: it knows no search cluster, and whoever it elects still has to own
// rebalancing by the record in the cluster itself, which has the last word (package mover). Only cmd stands after it.
package election
