// Streams: what is asked of a device is done in order, by a thread of its own.

#ifndef CUDASIM_STREAM_H
#define CUDASIM_STREAM_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace cudasim {

class stream {
public:
	stream() : worker([this] { work(); }) {}

	~stream()
	{
		{
			std::lock_guard<std::mutex> lock(mutex);
			ends = true;
		}
		changed.notify_all();
		worker.join();
	}

	void push(std::function<void()> task)
	{
		{
			std::lock_guard<std::mutex> lock(mutex);
			tasks.push_back(std::move(task));
		}
		changed.notify_all();
	}

	void wait()
	{
		std::unique_lock<std::mutex> lock(mutex);
		changed.wait(lock, [this] { return tasks.empty() && !busy; });
	}

	bool idle()
	{
		std::lock_guard<std::mutex> lock(mutex);
		return tasks.empty() && !busy;
	}

private:
	void work()
	{
		std::unique_lock<std::mutex> lock(mutex);
		for (;;) {
			changed.wait(lock, [this] { return ends || !tasks.empty(); });
			if (tasks.empty())
				return;
			std::function<void()> task = std::move(tasks.front());
			tasks.pop_front();
			busy = true;
			lock.unlock();
			task();
			task = nullptr;
			lock.lock();
			busy = false;
			changed.notify_all();
		}
	}

	std::mutex mutex;
	std::condition_variable changed;
	std::deque<std::function<void()>> tasks;
	bool busy = false, ends = false;
	std::thread worker; // last: it uses the others
};

} // namespace cudasim

#endif
