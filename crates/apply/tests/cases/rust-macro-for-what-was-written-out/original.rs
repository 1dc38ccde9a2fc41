use std::fmt;

impl<L, R> Iterator for Both<L, R>
where
    L: Iterator,
    R: Iterator<Item = L::Item>,
{
    type Item = L::Item;

    fn next(&mut self) -> Option<L::Item> {
        for_both!(*self, ref mut inner => inner.next())
    }
}

impl<L, R> fmt::Display for Both<L, R>
where
    L: fmt::Display,
    R: fmt::Display,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for_both!(self, inner => inner.fmt(f))
    }
}

impl<L, R> fmt::Write for Both<L, R>
where
    L: fmt::Write,
    R: fmt::Write,
{
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for_both!(*self, ref mut inner => inner.write_str(s))
    }
}

#[test]
fn formats() {
    let value: Both<u32, i32> = Left(0xC0DE);
    assert_eq!("49374", format!("{value}"));
    assert_eq!("c0de", format!("{value:x}"));
    assert_eq!("C0DE", format!("{value:X}"));
}
