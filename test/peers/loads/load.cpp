// SPDX-License-Identifier: Apache-2.0
// Load without end: virtual calls, exceptions, streams, sorting, recursion with and without variable frames.
#include <algorithm>
#include <alloca.h>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
    virtual ~Shape() = default;
    virtual double area(int depth) const = 0;
};

struct Square : Shape {
    double side;
    explicit Square(double a) : side(a) {}
    double area(int depth) const override
    {
        if (depth == 0)
            throw std::out_of_range("too deep");
        return side * side + Square(side / 2).area(depth - 1);
    }
};

struct Many : Shape {
    std::vector<std::unique_ptr<Shape>> parts;
    double area(int depth) const override
    {
        double sum = 0;
        for (const auto &part : parts) {
            try {
                sum += part->area(depth);
            } catch (const std::out_of_range &error) {
                sum += std::strlen(error.what());
            }
        }
        return sum;
    }
};

static int __attribute__((noinline)) in_variable_frame(int n)
{
    char *text = static_cast<char *>(alloca(n * 16 + 1));
    std::memset(text, 'a', n * 16);
    text[n * 16] = 0;
    return n ? in_variable_frame(n - 1) + text[0] : 0;
}

static size_t texts(std::mt19937 &random)
{
    std::map<std::string, int> words;
    for (int i = 0; i < 500; i++) {
        std::ostringstream stream;
        stream << "word-" << random() % 100 << ':' << i * 0.5;
        words[stream.str()]++;
    }
    static const std::regex pattern("word-([0-9]+)");
    size_t found = 0;
    for (const auto &word : words)
        found += std::regex_search(word.first, pattern);
    return found;
}

int main()
{
    std::mt19937 random(1);
    Many shapes;
    for (int i = 0; i < 10; i++)
        shapes.parts.push_back(std::make_unique<Square>(i));
    std::vector<unsigned> values(5000);
    for (double sum = 0; sum >= 0;) {
        std::generate(values.begin(), values.end(), std::ref(random));
        std::sort(values.begin(), values.end(), [](unsigned a, unsigned b) { return (a ^ 5) < (b ^ 5); });
        std::function<int(int)> call = in_variable_frame;
        sum += shapes.area(20) + texts(random) + call(100);
    }
    return 0;
}
