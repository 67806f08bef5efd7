#include "module.h"

#include <cstdlib>
#include <vector>

namespace cudasim {

namespace {

// number_after returns the number at s[at], whatever follows it.
size_t number_after(const std::string &s, size_t at) { return strtoul(s.c_str() + at, nullptr, 10); }

// parameter_sizes returns the sizes of the parameters of a list, each of which is
// ".param .u64 NAME" or the like.
std::vector<size_t> parameter_sizes(const std::string &list)
{
	const std::string word = ".param";
	std::vector<size_t> sizes;
	for (size_t at = list.find(word); at != std::string::npos; at = list.find(word, at)) {
		at = list.find('.', at + word.size());
		if (at == std::string::npos)
			break;
		at += 2; // the dot and the letter of the type
		sizes.push_back(number_after(list, at) / 8);
	}
	return sizes;
}

// compare says in which parameter a kernel of PTX differs from that of the host.
std::string compare(const std::string &name, const std::string &list, const kernel &k)
{
	std::vector<size_t> sizes = parameter_sizes(list);
	if (sizes.size() != k.parameters)
		return name + ": " + std::to_string(sizes.size()) + " parameters, the host's kernel has " + std::to_string(k.parameters);
	for (size_t n = 0; n < sizes.size(); n++)
		if (sizes[n] != k.sizes[n])
			return name + ": parameter " + std::to_string(n) + " is not what the host's kernel has";
	return "";
}

// block_threads returns the size of a kernel's blocks, if it stands between its
// parameters and its body.
unsigned block_threads(const std::string &ptx, size_t after)
{
	const std::string word = ".maxntid";
	size_t at = ptx.find(word, after), body = ptx.find('{', after);
	if (at == std::string::npos || at > body)
		return MAX_THREADS;
	return static_cast<unsigned>(number_after(ptx, at + word.size()));
}

} // namespace

std::string load_module(const std::string &ptx, module *to)
{
	if (ptx.find(".version") == std::string::npos || ptx.find(".target") == std::string::npos)
		return "no PTX: .version or .target is missing";
	const std::string entry = ".entry ";
	for (size_t at = ptx.find(entry); at != std::string::npos; at = ptx.find(entry, at)) {
		at += entry.size();
		size_t open = ptx.find('(', at), close = ptx.find(')', at);
		if (open == std::string::npos || close == std::string::npos)
			return "no PTX: a kernel breaks off";
		std::string name = ptx.substr(at, open - at);
		const kernel *k = find_kernel(name);
		if (k == nullptr)
			return name + ": the host has no such kernel";
		std::string wrong = compare(name, ptx.substr(open, close - open), *k);
		if (!wrong.empty())
			return wrong;
		to->functions[name] = {k, block_threads(ptx, close)};
	}
	return "";
}

} // namespace cudasim
