#pragma once

class day
{
    unsigned char d_;
public:
    explicit day(unsigned d) NOEXCEPT;
    day(other::day d) NOEXCEPT;
    unsigned count() const NOEXCEPT {return d_;}
};

inline
day::day(unsigned d) NOEXCEPT
    : d_(static_cast<unsigned char>(d))
    {}

inline
day::day(other::day d) NOEXCEPT
    : d_(to_own_encoding(static_cast<unsigned>(d)))
    {}

inline
bool
operator==(const day& x, const day& y) NOEXCEPT
{
    return x.count() == y.count();
}
