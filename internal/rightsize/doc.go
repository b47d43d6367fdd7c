// Package rightsize answers how few nodes would carry what a cluster carries, also without any one of its zones, and proves
// that fewer could not.
package rightsize
