#include <string>

class Name {
public:
    explicit Name(std::string text) : text_(text) {}

    bool empty() const { return text_.empty(); }

    std::size_t length() const { return text_.length(); }

    const std::string text() const { return text_; }

private:
    std::string text_;
};
