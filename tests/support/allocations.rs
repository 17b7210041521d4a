//! An allocator that counts what one thread asks of it. A binary that uses this module runs on it.

#![allow(dead_code, reason = "each test and each bench uses a part of it")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// What happened on this thread while something ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocations {
    /// New allocations, and moves of old ones to another size.
    pub count: usize,
    /// The most bytes that were held beyond those at the beginning.
    pub peak: isize,
}

/// Runs `f` and counts.
pub fn count<T>(f: impl FnOnce() -> T) -> (T, Allocations) {
    COUNT.set(0);
    HELD.set(0);
    PEAK.set(0);
    let result = f();
    (result, Allocations { count: COUNT.get(), peak: PEAK.get() })
}

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

impl Counting {
    fn hold(bytes: isize) {
        HELD.set(HELD.get() + bytes);
        PEAK.set(PEAK.get().max(HELD.get()));
    }
}

// SAFETY: everything is passed on to the system's allocator. The counters are constants of the thread, which
// need neither an allocation nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        Self::hold(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::hold(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        Self::hold(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
