#include "script.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace cudasim {

namespace {

struct rule {
	std::string name;
	uint64_t from;
	bool onwards;
	fault effect;
};

std::mutex mutex;
settings now;
std::vector<rule> rules;
std::map<std::string, uint64_t> counts;

// parse_number sets *n and returns what follows the digits, null if there are none.
const char *parse_number(const char *s, int64_t *n)
{
	if (*s < '0' || *s > '9')
		return nullptr;
	char *end;
	*n = strtoll(s, &end, 10);
	return end;
}

bool parse_rule(const std::string &name, const char *s, std::vector<rule> *to)
{
	int64_t from, code;
	rule r = {};
	if ((s = parse_number(s, &from)) == nullptr)
		return false;
	if (*s == '+') {
		r.onwards = true;
		s++;
	}
	if (*s++ != '=' || (s = parse_number(s, &code)) == nullptr)
		return false;
	std::string lost = s;
	if (lost != "" && lost != "!" && lost != "!!")
		return false;
	r.name = name;
	r.from = static_cast<uint64_t>(from);
	r.effect = {static_cast<int>(code), lost == "!", lost == "!!"};
	to->push_back(r);
	return true;
}

bool parse_setting(const std::string &name, const char *value, settings *to)
{
	int64_t n = 0;
	const char *end = parse_number(value, &n);
	if (name == "order") {
		to->reverse = std::string(value) == "reverse";
		return to->reverse || std::string(value) == "forward";
	}
	if (end == nullptr || *end != 0)
		return false;
	if (name == "memory")
		to->memory = static_cast<size_t>(n);
	else if (name == "devices")
		to->devices = static_cast<int>(n);
	else if (name == "copy")
		to->copy_microseconds = n;
	else if (name == "kernel")
		to->kernel_microseconds = n;
	else
		return false;
	return true;
}

bool parse(const std::string &script, settings *s, std::vector<rule> *r)
{
	for (size_t at = 0; at < script.size();) {
		size_t end = script.find(';', at);
		if (end == std::string::npos)
			end = script.size();
		std::string part = script.substr(at, end - at);
		at = end + 1;
		size_t colon = part.find(':'), equal = part.find('=');
		if (part.empty())
			continue;
		bool good = false;
		if (colon != std::string::npos && colon < equal)
			good = parse_rule(part.substr(0, colon), part.c_str() + colon + 1, r);
		else if (equal != std::string::npos)
			good = parse_setting(part.substr(0, equal), part.c_str() + equal + 1, s);
		if (!good)
			return false;
	}
	return true;
}

} // namespace

bool set_script(const std::string &script)
{
	settings s;
	std::vector<rule> r;
	if (!parse(script, &s, &r))
		return false;
	std::lock_guard<std::mutex> lock(mutex);
	now = s;
	rules = r;
	counts.clear();
	return true;
}

settings current_settings()
{
	std::lock_guard<std::mutex> lock(mutex);
	return now;
}

fault count_call(const std::string &name)
{
	std::lock_guard<std::mutex> lock(mutex);
	uint64_t n = ++counts[name];
	for (const rule &r : rules)
		if (r.name == name && (n == r.from || (r.onwards && n > r.from)))
			return r.effect;
	return {};
}

uint64_t calls(const std::string &name)
{
	std::lock_guard<std::mutex> lock(mutex);
	auto found = counts.find(name);
	return found == counts.end() ? 0 : found->second;
}

} // namespace cudasim
