// Package kubernetes tests what is shipped for Kubernetes against a real API server: every object that kustomize and Helm
// render, and two daemons with the shipped permissions that elect one of them, die, and take over from each other.
//
// It is a module of its own, since it builds an API server and its store; the program's own dependencies stay small. There
// is no kubelet and no controller: pods are admitted and not run, and the daemons are processes of this machine.
package kubernetes
