// Package order knows what will be read next.
//
// A file system sees one open at a time. From the order of opens [ReadAhead]
// finds out that a reader goes through a folder, and has the next images made
// before they are asked for.
//
// What it promises: its bookkeeping is bounded, whatever is opened; nothing is
// made ahead unless a reader has shown an order, and less and less for readers
// that leave what was made; what is made and not yet opened stays within a
// number of images for each reader and a number of bytes for all.
//
// Where the order is known beforehand, a [Lookahead] follows the reader along it.
//
// In streams the order is given, not found out: an [Epoch] is a function of a seed
// and a number, and package shard lays its samples out as files.
//
// [Echoes] say which requests of an echo view are decoded and what the others get.
//
// It knows neither FUSE nor codecs: a [Source] lists folders and makes images.
package order
