package fs

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"prismfs/order"
)

// parseFolderView reads terms as the folder train would carry them.
func parseFolderView(text string) (View, error) {
	tm, err := parseTerms(text)
	if err != nil {
		return View{}, err
	}
	return tm.apply(DefaultView, "train")
}

func TestParseReadingTerms(t *testing.T) {
	for text, want := range map[string]View{
		"echo2":                         {Echo: order.EchoView{Folder: "train", Factor: 200}},
		"echo1.5":                       {Echo: order.EchoView{Folder: "train", Factor: 150}},
		"seed7+echo1+buffer1":           {Echo: order.EchoView{Folder: "train", Factor: 100, Buffer: 1, Seed: 7}},
		"echo2+seed0":                   {Echo: order.EchoView{Folder: "train", Factor: 200}},
		"3+echo2":                       {Fidelity: 3, Echo: order.EchoView{Folder: "train", Factor: 200}},
		"auto+echo2":                    {Auto: AutoView{"train", "auto"}, Echo: order.EchoView{Folder: "train", Factor: 200}},
		"stream":                        {Stream: order.StreamView{Folder: "train", Factor: 100, Shard: 1000, Ranks: 1}},
		"stream+seed7+echo2":            {Stream: order.StreamView{Folder: "train", Factor: 200, Seed: 7, Shard: 1000, Ranks: 1}},
		"buffer9+shard5+stream":         {Stream: order.StreamView{Folder: "train", Factor: 100, Buffer: 9, Shard: 5, Ranks: 1}},
		"stream+rank0of1":               {Stream: order.StreamView{Folder: "train", Factor: 100, Shard: 1000, Ranks: 1}},
		"stream+rank7of8":               {Stream: order.StreamView{Folder: "train", Factor: 100, Shard: 1000, Rank: 7, Ranks: 8}},
		"rank65535of65536+stream":       {Stream: order.StreamView{Folder: "train", Factor: 100, Shard: 1000, Rank: 65535, Ranks: 65536}},
		"echo2+seed9223372036854775807": {Echo: order.EchoView{Folder: "train", Factor: 200, Seed: math.MaxInt64}},
	} {
		if got, err := parseFolderView(text); err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"seed7", "buffer9", "shard500", "rank0of8", "echo2+shard500", "echo2+rank0of8", // of nothing
		"echo2+echo2", "echo2+echo3", "stream+stream", "echo2+seed1+seed1", "echo2+buffer1+buffer2",
		"stream+shard1+shard2", "stream+rank0of2+rank1of2", // twice
		"echo", "echo0", "echo0.5", "echo101", "echo1.555", "echo-2", "Echo2", "stream2", "stream.",
		"echo2+seed", "echo2+seed-1", "echo2+seed01", "echo2+seed1.5", "echo2+seed9223372036854775808",
		"echo2+buffer0", "echo2+buffer1000001", "stream+shard0", "stream+shard1000001",
		"stream+rank8of8", "stream+rankof8", "stream+rank0of", "stream+rank0", "stream+rank0of0", "stream+rank00of8", "stream+rank0of65537",
	} {
		if got, err := parseFolderView(text); err == nil {
			t.Errorf("%s is %+v, want an error", text, got)
		}
	}
	for _, text := range []string{"echo2", "png+echo2", "stream", "stream+seed7"} {
		if _, err := ParseView(text); err == nil || !strings.Contains(err.Error(), "+"+text) {
			t.Errorf("a mount whose default view is %s: %v; want an error that says where to read", text, err)
		}
	}
}

func TestReadingViewStringParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := DefaultView
		v.Fidelity = rapid.IntRange(0, 9).Draw(t, "k")
		seed := rapid.Uint64Range(0, math.MaxInt64).Draw(t, "seed")
		factor := order.Factor(rapid.Uint32Range(100, 10000).Draw(t, "factor"))
		buffer := rapid.IntRange(0, order.MaxBuffer).Draw(t, "buffer")
		if rapid.Bool().Draw(t, "stream") {
			ranks := rapid.IntRange(1, order.MaxRanks).Draw(t, "ranks")
			v.Stream = order.StreamView{
				Folder: "train", Seed: seed, Factor: factor, Buffer: buffer,
				Shard: rapid.IntRange(1, order.MaxShard).Draw(t, "shard"),
				Rank:  rapid.IntRange(0, ranks-1).Draw(t, "rank"), Ranks: ranks,
			}
		} else {
			v.Echo = order.EchoView{Folder: "train", Factor: factor, Buffer: buffer, Seed: seed}
		}
		got, err := parseFolderView(v.String())
		if err != nil || got != v {
			t.Fatalf("%q is %+v, %v; want %+v", v.String(), got, err, v)
		}
	})
}

func TestReadingTermsOfAFile(t *testing.T) {
	r := sourceTree(t)
	for _, name := range []string{"001+echo2.npy", "001+stream.npy", "001+chw+echo2.npy"} {
		var why *errWhy
		if _, err := walk(r, DefaultView, "train", "cat", name); !errors.As(err, &why) || !strings.Contains(why.reason, "folders") {
			t.Errorf("%s: %v, want a reason", name, err)
		}
	}
}
