// Package image carries out the Dockerfile where there is no container engine, and looks at what comes of it.
//
// It is a module of its own, for the sake of BuildKit's own parser and linter. The instructions are the Dockerfile's, one by
// one; what stands in for the engine is a folder made by debootstrap for the image that the build starts from, and a
// read-only mount with an unprivileged user for the container.
package image
