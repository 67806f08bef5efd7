package fs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prismfs/tensor"
)

func TestParseView(t *testing.T) {
	for text, want := range map[string]View{
		"npy":             {Form: tensor.Form{Container: tensor.NPY}},
		"png+rgb":         {Form: tensor.Form{Container: tensor.PNG, RGB: true}},
		"rgb+png":         {Form: tensor.Form{Container: tensor.PNG, RGB: true}},
		"3+png":           {Fidelity: 3, Form: tensor.Form{Container: tensor.PNG}},
		"7":               {Fidelity: 7},
		"raw+chw":         {Form: tensor.Form{Container: tensor.Raw, CHW: true}},
		"ppm+16":          {Form: tensor.Form{Container: tensor.PPM, Wide: true}},
		"16+ppm":          {Form: tensor.Form{Container: tensor.PPM, Wide: true}},
		"16":              {Fidelity: 16},
		"png+16":          {Fidelity: 16, Form: tensor.Form{Container: tensor.PNG}},
		"ppm+16+3":        {Fidelity: 3, Form: tensor.Form{Container: tensor.PPM, Wide: true}},
		"orig":            {Form: tensor.Form{Container: tensor.Orig}},
		"jpg+2":           {Fidelity: 2, Form: tensor.Form{Container: tensor.JPG}},
		"auto":            {Auto: AutoView{Word: "auto"}},
		"png+auto-a.B_1-": {Auto: AutoView{Word: "auto-a.B_1-"}, Form: tensor.Form{Container: tensor.PNG}},
		"auto+ppm+16":     {Auto: AutoView{Word: "auto"}, Form: tensor.Form{Container: tensor.PPM, Wide: true}},
		"chw+rgb+1":       {Fidelity: 1, Form: tensor.Form{CHW: true, RGB: true}},
	} {
		got, err := ParseView(text)
		if err != nil || got != want {
			t.Errorf("ParseView(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "+", "png+", "PNG", "png+png", "png+npy", "3+4", "0", "03", "-1", "1.5", "png+chw", "l3+rgb",
		"16+16", "rgb+rgb", "99999999999999999999", "jpeg", "npy+16+5",
		"auto-", "auto-a b", "autox", "Auto", "auto+auto", "auto+auto-x", "auto+3", "3+auto", "auto+16", "16+auto", "auto-" + strings.Repeat("x", 65),
	} {
		if v, err := ParseView(text); err == nil {
			t.Errorf("ParseView(%q) = %v, want an error", text, v)
		}
	}
}

func TestViewStringParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := View{
			Auto:     AutoView{Word: rapid.SampledFrom([]string{"", "auto", "auto-x"}).Draw(t, "auto")},
			Fidelity: rapid.IntRange(0, maxFidelity).Filter(func(k int) bool { return k != 16 }).Draw(t, "k"),
			Form: tensor.Form{
				Container: tensor.Container(rapid.IntRange(0, int(tensor.Orig)).Draw(t, "container")),
				CHW:       rapid.Bool().Draw(t, "chw"),
				RGB:       rapid.Bool().Draw(t, "rgb"),
				Wide:      rapid.Bool().Draw(t, "wide"),
			},
		}
		if v.Form.Check() != nil {
			t.Skip("no such form")
		}
		if v.Auto.Word != "" {
			v.Fidelity = 0
		}
		got, err := ParseView(v.String())
		if err != nil || got != v {
			t.Fatalf("ParseView(%q) = %v, %v", v.String(), got, err)
		}
	})
}

func TestTermsOfADefaultView(t *testing.T) {
	def := View{Fidelity: 2, Form: tensor.Form{Container: tensor.PNG, RGB: true}}
	for word, want := range map[string]View{
		"3":    {Fidelity: 3, Form: tensor.Form{Container: tensor.PNG, RGB: true}}, // the form stays
		"npy":  {Fidelity: 2, Form: tensor.Form{Container: tensor.NPY}},            // starts afresh
		"auto": {Auto: AutoView{Folder: "train", Word: "auto"}, Form: tensor.Form{Container: tensor.PNG, RGB: true}},
	} {
		var tm terms
		if err := tm.add(word); err != nil {
			t.Fatal(err)
		}
		got, err := tm.apply(def, "train")
		if err != nil || got != want {
			t.Errorf("%s on %v gives %v, %v; want %v", word, def, got, err, want)
		}
	}
}

func TestSplits(t *testing.T) {
	bases := func(name string) []string {
		s, _ := splits(name)
		out := []string{}
		for _, x := range s {
			out = append(out, x.base)
		}
		return out
	}
	for name, want := range map[string][]string{
		"train":          {},
		"train+3":        {"train"},
		"train+3+png":    {"train+3", "train"},
		"train+png+3":    {"train+png", "train"},
		"c++":            {},
		"c+++3":          {"c++"},
		"lost+found":     {},
		"lost+found+png": {"lost+found"},
		"+3+png":         {"+3", ""},
		"+":              {},
		"a+b+3":          {"a+b"},
		"a+3+b":          {},
		"a+3+3":          {"a+3"}, // the second number ends it
	} {
		if diff := cmp.Diff(want, bases(name)); diff != "" {
			t.Errorf("splits(%q): %s", name, diff)
		}
	}
	auto := View{Auto: AutoView{Folder: "", Word: "auto"}}
	var tm terms
	if err := tm.add("3"); err != nil {
		t.Fatal(err)
	}
	if got, err := tm.apply(auto, "train"); err != nil || got != (View{Fidelity: 3}) {
		t.Errorf("3 on an auto view gives %v, %v", got, err)
	}
	if _, err := splits("a+png+npy"); err == nil {
		t.Error("two forms in one name are no error")
	}
}

func FuzzSplits(f *testing.F) {
	for _, s := range []string{"train+3+png", "c++", "+", "a+16+ppm", "+3+png", "\xff+1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		readings, _ := splits(name)
		for _, r := range readings {
			if len(r.base) >= len(name) || name[:len(r.base)] != r.base || name[len(r.base)] != '+' {
				t.Fatalf("%q is read as %q with terms", name, r.base)
			}
		}
	})
}
