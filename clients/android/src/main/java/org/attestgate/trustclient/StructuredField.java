package org.attestgate.trustclient;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A parser of dictionaries (RFC 8941, section 4.2.2) that keeps one member and checks the others. */
final class StructuredField {
    /** Thrown for a field that is no dictionary, or longer than a valid proof needs. */
    static final class Malformed extends Exception {
        private static final long serialVersionUID = 1;
    }

    /** A member whose value is an inner list of strings without parameters of their own. */
    static final class InnerList {
        final List<String> items = new ArrayList<>();
        /** The values: {@link String} for a string, {@code true} for a parameter without a value. */
        final Map<String, Object> parameters = new LinkedHashMap<>();
    }

    private static final int LENGTH_LIMIT = 16_384;
    private static final int COUNT_LIMIT = 64;
    private static final Object OTHER_TYPE = new Object();

    private final String text;
    private int position;

    private StructuredField(String text) {
        this.text = text;
    }

    /**
     * Returns the member with this key.
     *
     * @param field the values of all lines, joined by a comma and a space
     * @return null if there is no such member
     * @throws Malformed if the field is no dictionary, or the member is no inner list of strings or occurs twice
     */
    static InnerList innerList(String key, String field) throws Malformed {
        if (field.length() > LENGTH_LIMIT) throw new Malformed();
        return new StructuredField(field).find(key);
    }

    private InnerList find(String key) throws Malformed {
        InnerList found = null;
        skip(" ");
        for (int count = 0; position < text.length(); count++) {
            if (count == COUNT_LIMIT) throw new Malformed();
            String name = key();
            InnerList list = memberValue(name.equals(key));
            if (name.equals(key)) {
                if (found != null) throw new Malformed();
                found = list;
            }
            skip(" \t");
            if (position == text.length()) break;
            if (!take(',')) throw new Malformed();
            skip(" \t");
            if (position == text.length()) throw new Malformed();
        }
        return found;
    }

    private InnerList memberValue(boolean isWanted) throws Malformed {
        InnerList list = new InnerList();
        boolean hasValue = take('=');
        if (hasValue && take('(')) {
            readItems(list, isWanted);
        } else if (isWanted) {
            throw new Malformed();
        } else if (hasValue) {
            bareItem();
        }
        readParameters(list.parameters);
        return list;
    }

    private void readItems(InnerList list, boolean isWanted) throws Malformed {
        boolean isSeparated = true;
        while (true) {
            int start = position;
            skip(" ");
            if (take(')')) return;
            if (!isSeparated && start == position || list.items.size() == COUNT_LIMIT) throw new Malformed();
            Object item = bareItem();
            Map<String, Object> parameters = new LinkedHashMap<>();
            readParameters(parameters);
            if (isWanted && !(item instanceof String && parameters.isEmpty())) throw new Malformed();
            list.items.add(String.valueOf(item));
            isSeparated = false;
        }
    }

    private void readParameters(Map<String, Object> parameters) throws Malformed {
        while (take(';')) {
            skip(" ");
            String key = key();
            Object value = take('=') ? bareItem() : Boolean.TRUE;
            if (parameters.put(key, value) != null || parameters.size() > COUNT_LIMIT) throw new Malformed();
        }
    }

    private String key() throws Malformed {
        int start = position;
        while (position < text.length() && isKeyCharacter(text.charAt(position), position == start)) position++;
        if (start == position) throw new Malformed();
        return text.substring(start, position);
    }

    private static boolean isKeyCharacter(char c, boolean isFirst) {
        return c >= 'a' && c <= 'z' || c == '*' || !isFirst && (c >= '0' && c <= '9' || "_-.".indexOf(c) >= 0);
    }

    /** Parses an item. Returns the content of a string, a Boolean, or another object for the other types. */
    private Object bareItem() throws Malformed {
        if (take('"')) return string();
        if (take('?')) {
            if (take('1')) return Boolean.TRUE;
            if (take('0')) return Boolean.FALSE;
            throw new Malformed();
        }
        int start = position;
        if (take(':')) {
            int end = text.indexOf(':', position);
            if (end < 0 || Bytes.decodeBase64(text.substring(position, end)) == null) throw new Malformed();
            position = end + 1;
            return OTHER_TYPE;
        }
        while (position < text.length() && isNumberOrTokenCharacter(text.charAt(position))) position++;
        String item = text.substring(start, position);
        if (!item.matches("-?[0-9]{1,15}|-?[0-9]{1,12}\\.[0-9]{1,3}|[A-Za-z*].*")) {
            throw new Malformed();
        }
        return OTHER_TYPE;
    }

    private static boolean isNumberOrTokenCharacter(char c) {
        return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
            || "!#$%&'*+-.^_`|~:/".indexOf(c) >= 0;
    }

    private String string() throws Malformed {
        StringBuilder content = new StringBuilder();
        while (position < text.length()) {
            char c = text.charAt(position++);
            if (c == '"') return content.toString();
            if (c == '\\') {
                if (position == text.length()) break;
                c = text.charAt(position++);
                if (c != '"' && c != '\\') break;
            }
            if (c < 0x20 || c > 0x7e) break;
            content.append(c);
        }
        throw new Malformed();
    }

    private void skip(String characters) {
        while (position < text.length() && characters.indexOf(text.charAt(position)) >= 0) position++;
    }

    private boolean take(char c) {
        if (position >= text.length() || text.charAt(position) != c) return false;
        position++;
        return true;
    }
}
