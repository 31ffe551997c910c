package org.attestgate.trustclient;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A parser of JSON (RFC 8259) for short texts. The library cannot use {@code org.json}, which exists on Android only.
 */
final class Json {
    /** Thrown for text that is not JSON, or nested too deeply. */
    private static final class Malformed extends Exception {
        private static final long serialVersionUID = 1;
    }

    private static final int DEPTH_LIMIT = 16;

    private final String text;
    private int position;

    private Json(String text) {
        this.text = text;
    }

    /**
     * Parses an object. Its values are {@link String}, {@link Long} for an integer, {@link Double}, {@link Boolean},
     * {@link List}, {@link Map} or null.
     *
     * @return null if the text is not one JSON object, or a name occurs twice
     */
    @SuppressWarnings("unchecked")
    static Map<String, Object> object(String text) {
        try {
            Json parser = new Json(text);
            Object value = parser.value(0);
            parser.skipSpace();
            return parser.position == text.length() && value instanceof Map ? (Map<String, Object>) value : null;
        } catch (Malformed error) {
            return null;
        }
    }

    /** Parses a list of objects. Returns null if the text is not one. */
    @SuppressWarnings("unchecked")
    static List<Map<String, Object>> objects(String text) {
        Map<String, Object> wrapped = object("{\"list\":" + text + "}");
        if (wrapped == null || wrapped.size() != 1 || !(wrapped.get("list") instanceof List)) return null;
        List<Map<String, Object>> objects = new ArrayList<>();
        for (Object element : (List<?>) wrapped.get("list")) {
            if (!(element instanceof Map)) return null;
            objects.add((Map<String, Object>) element);
        }
        return objects;
    }

    /** Returns a member of an object if it is a text, else null. */
    static String text(Map<String, Object> object, String name) {
        Object value = object == null ? null : object.get(name);
        return value instanceof String ? (String) value : null;
    }

    /** Returns a member of an object if it is an integer, else null. */
    static Long integer(Map<String, Object> object, String name) {
        Object value = object == null ? null : object.get(name);
        return value instanceof Long ? (Long) value : null;
    }

    /** Returns a member of an object if it is a list of texts, else null. */
    static List<String> texts(Map<String, Object> object, String name) {
        Object value = object == null ? null : object.get(name);
        if (!(value instanceof List)) return null;
        List<String> texts = new ArrayList<>();
        for (Object element : (List<?>) value) {
            if (!(element instanceof String)) return null;
            texts.add((String) element);
        }
        return texts;
    }

    /** Returns the text as a JSON string, with its quotes. */
    static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < 0x20) {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }

    private Object value(int depth) throws Malformed {
        if (depth > DEPTH_LIMIT) throw new Malformed();
        skipSpace();
        switch (peek()) {
            case '{': return members(depth);
            case '[': return elements(depth);
            case '"': return string();
            case 't': return word("true", Boolean.TRUE);
            case 'f': return word("false", Boolean.FALSE);
            case 'n': return word("null", null);
            default: return number();
        }
    }

    private Map<String, Object> members(int depth) throws Malformed {
        Map<String, Object> members = new LinkedHashMap<>();
        position++;
        skipSpace();
        if (take('}')) return members;
        do {
            skipSpace();
            if (peek() != '"') throw new Malformed();
            String name = string();
            skipSpace();
            if (!take(':') || members.containsKey(name)) throw new Malformed();
            members.put(name, value(depth + 1));
            skipSpace();
        } while (take(','));
        if (!take('}')) throw new Malformed();
        return members;
    }

    private List<Object> elements(int depth) throws Malformed {
        List<Object> elements = new ArrayList<>();
        position++;
        skipSpace();
        if (take(']')) return elements;
        do {
            elements.add(value(depth + 1));
            skipSpace();
        } while (take(','));
        if (!take(']')) throw new Malformed();
        return elements;
    }

    private String string() throws Malformed {
        StringBuilder string = new StringBuilder();
        position++;
        while (!take('"')) {
            char c = next();
            if (c < 0x20) throw new Malformed();
            string.append(c == '\\' ? escaped() : c);
        }
        return string.toString();
    }

    private char escaped() throws Malformed {
        char c = next();
        switch (c) {
            case '"': case '\\': case '/': return c;
            case 'b': return '\b';
            case 'f': return '\f';
            case 'n': return '\n';
            case 'r': return '\r';
            case 't': return '\t';
            case 'u':
                int code = 0;
                for (int i = 0; i < 4; i++) {
                    int digit = Character.digit(next(), 16);
                    if (digit < 0) throw new Malformed();
                    code = code << 4 | digit;
                }
                return (char) code;
            default: throw new Malformed();
        }
    }

    private Object number() throws Malformed {
        int start = position;
        while (position < text.length() && "+-.0123456789Ee".indexOf(text.charAt(position)) >= 0) position++;
        String number = text.substring(start, position);
        if (!number.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([Ee][+-]?[0-9]+)?")) throw new Malformed();
        try {
            return Long.valueOf(number);
        } catch (NumberFormatException notAnInteger) {
            return Double.valueOf(number);
        }
    }

    private Object word(String word, Object value) throws Malformed {
        if (!text.startsWith(word, position)) throw new Malformed();
        position += word.length();
        return value;
    }

    private void skipSpace() {
        while (position < text.length() && " \t\r\n".indexOf(text.charAt(position)) >= 0) position++;
    }

    private char peek() throws Malformed {
        if (position >= text.length()) throw new Malformed();
        return text.charAt(position);
    }

    private char next() throws Malformed {
        char c = peek();
        position++;
        return c;
    }

    private boolean take(char c) {
        if (position >= text.length() || text.charAt(position) != c) return false;
        position++;
        return true;
    }
}
