package counters

import java.util.concurrent.atomic.AtomicInteger
import kotlin.experimental.Native

private class NativeCell<T>(value: T) : Cell<T> {
    private val cell = AtomicReference(value)
    override val value: T
        get() = cell.value

    override fun swap(old: T, new: T): Boolean {
        return cell.compareAndSet(old, new)
    }
}

private class NativeCounter(initial: Int) : Counter {
    private val counter = AtomicInteger(initial)
    override fun next(): Int = counter.addAndGet(1)
    override fun last(): Int = counter.get()
}

internal actual fun Counter(initial: Int): Counter = NativeCounter(initial)
internal actual fun <T> Cell(value: T): Cell<T> = NativeCell(value)

internal actual fun isAgent(): Boolean = false
