#include <string>
#include <utility>

class Name {
public:
    explicit Name(std::string text) : text_(std::move(text)) {}

    bool empty() const { return text_.empty(); }

    std::size_t length() const { return text_.length(); }

    const std::string& text() const { return text_; }

private:
    std::string text_;
};
