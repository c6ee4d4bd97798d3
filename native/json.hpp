// JSON, as much as the protocol needs: one value a line, read whole or refused.
#pragma once

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

struct Json {
  enum Kind { Null, Bool, Number, Text, List, Object };
  Kind kind = Null;
  bool flag = false;
  double number = 0;
  std::string text;
  std::vector<Json> items;
  std::map<std::string, Json> fields;

  Json() = default;
  Json(bool value) : kind(Bool), flag(value) {}
  Json(double value) : kind(Number), number(value) {}
  Json(int value) : kind(Number), number(value) {}
  Json(std::string value) : kind(Text), text(std::move(value)) {}
  Json(const char* value) : kind(Text), text(value) {}
  Json(std::map<std::string, Json> value) : kind(Object), fields(std::move(value)) {}

  bool is_null() const { return kind == Null; }
  bool has(const std::string& name) const {
    return kind == Object && fields.count(name) != 0 && !fields.at(name).is_null();
  }
  const Json& at(const std::string& name) const {
    if (!has(name)) throw std::invalid_argument("there is no " + name);
    return fields.at(name);
  }
  int whole() const {
    if (kind != Number || number != std::floor(number) || std::fabs(number) > 1e9)
      throw std::invalid_argument("not a whole number");
    return static_cast<int>(number);
  }
  double real() const {
    if (kind != Number) throw std::invalid_argument("not a number");
    return number;
  }
  const std::string& word() const {
    if (kind != Text) throw std::invalid_argument("not a text");
    return text;
  }
  const std::vector<Json>& list() const {
    if (kind != List) throw std::invalid_argument("not a list");
    return items;
  }

  std::string dump() const {
    switch (kind) {
      case Null: return "null";
      case Bool: return flag ? "true" : "false";
      case Number: return dump_number();
      case Text: return quoted(text);
      case List: return dump_list();
      default: return dump_object();
    }
  }

  static Json parse(const std::string& source) {
    Reader reader{source, 0};
    Json value = reader.value(0);
    reader.space();
    if (reader.at != source.size()) throw std::invalid_argument("more than one value");
    return value;
  }

 private:
  std::string dump_number() const {
    char buffer[32];
    if (number == std::floor(number) && std::fabs(number) < 1e15)
      std::snprintf(buffer, sizeof buffer, "%.0f", number);
    else
      std::snprintf(buffer, sizeof buffer, "%.9g", number);
    return buffer;
  }
  std::string dump_list() const {
    std::string out = "[";
    for (const Json& item : items) out += (out.size() > 1 ? "," : "") + item.dump();
    return out + "]";
  }
  std::string dump_object() const {
    std::string out = "{";
    for (const auto& field : fields)
      out += (out.size() > 1 ? "," : "") + quoted(field.first) + ":" + field.second.dump();
    return out + "}";
  }
  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (unsigned char letter : text) {
      if (letter == '"' || letter == '\\') out += '\\';
      if (letter < 0x20)
        out += ' ';
      else
        out += static_cast<char>(letter);
    }
    return out + "\"";
  }

  struct Reader {
    const std::string& source;
    size_t at;

    [[noreturn]] void fail() const {
      throw std::invalid_argument("no JSON at " + std::to_string(at));
    }
    void space() {
      while (at < source.size() && std::isspace(static_cast<unsigned char>(source[at]))) ++at;
    }
    char next() {
      space();
      if (at >= source.size()) fail();
      return source[at];
    }
    bool take(char letter) {
      if (next() != letter) return false;
      ++at;
      return true;
    }
    bool take_word(const char* word) {
      std::string wanted = word;
      if (source.compare(at, wanted.size(), wanted) != 0) return false;
      at += wanted.size();
      return true;
    }
    Json value(int depth) {
      if (depth > 100) fail();
      char first = next();
      if (first == '{') return object(depth);
      if (first == '[') return list(depth);
      if (first == '"') return Json(string());
      if (take_word("null")) return Json();
      if (take_word("true")) return Json(true);
      if (take_word("false")) return Json(false);
      return number_value();
    }
    Json number_value() {
      char* end = nullptr;
      double found = std::strtod(source.c_str() + at, &end);
      size_t stop = static_cast<size_t>(end - source.c_str());
      if (stop == at) fail();
      at = stop;
      return Json(found);
    }
    Json object(int depth) {
      Json made(std::map<std::string, Json>{});
      ++at;
      if (take('}')) return made;
      do {
        if (next() != '"') fail();
        std::string name = string();
        if (!take(':')) fail();
        made.fields[name] = value(depth + 1);
      } while (take(','));
      if (!take('}')) fail();
      return made;
    }
    Json list(int depth) {
      Json made;
      made.kind = List;
      ++at;
      if (take(']')) return made;
      do made.items.push_back(value(depth + 1));
      while (take(','));
      if (!take(']')) fail();
      return made;
    }
    std::string string() {
      std::string made;
      ++at;
      while (at < source.size() && source[at] != '"') {
        char letter = source[at++];
        if (letter == '\\') letter = escaped(made);
        if (letter) made += letter;
      }
      if (at >= source.size()) fail();
      ++at;
      return made;
    }
    char escaped(std::string& made) {
      if (at >= source.size()) fail();
      char letter = source[at++];
      if (letter == 'n') return '\n';
      if (letter == 't') return '\t';
      if (letter != 'u') return letter;
      if (at + 4 > source.size()) fail();
      unsigned long code = std::strtoul(source.substr(at, 4).c_str(), nullptr, 16);
      at += 4;
      if (code < 0x80) return static_cast<char>(code);
      if (code >= 0x800) made += static_cast<char>(0xE0 | (code >> 12));
      made += static_cast<char>(code >= 0x800 ? 0x80 | ((code >> 6) & 0x3F) : 0xC0 | (code >> 6));
      return static_cast<char>(0x80 | (code & 0x3F));
    }
  };
};
