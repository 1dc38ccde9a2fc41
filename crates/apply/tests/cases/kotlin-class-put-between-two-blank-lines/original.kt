package counters

import java.util.concurrent.atomic.AtomicInteger
import kotlin.experimental.Native


private class NativeCounter(initial: Int) : Counter {
    private val counter = AtomicInteger(initial)
    override fun next(): Int = counter.addAndGet(1)
    override fun last(): Int = counter.get()
}

internal actual fun Counter(initial: Int): Counter = NativeCounter(initial)

internal actual fun isAgent(): Boolean = false
