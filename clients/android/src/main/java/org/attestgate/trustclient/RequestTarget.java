package org.attestgate.trustclient;

/** The target of a request, in the parts that a proof covers. */
public final class RequestTarget {
    private static final String SCHEME = "https://";

    final String authority;
    final String path;
    final String query;

    private RequestTarget(String authority, String path, String query) {
        this.authority = authority;
        this.path = path;
        this.query = query;
    }

    /**
     * Parses a URL.
     *
     * @param url {@code https://authority[/path][?query][#fragment]}, percent-encoded as it is sent. The fragment is
     *     ignored.
     * @throws IllegalArgumentException for another form, or if the URL has a user
     */
    public static RequestTarget parse(String url) {
        boolean isHttps = url.regionMatches(true, 0, SCHEME, 0, SCHEME.length());
        int end = url.indexOf('#') < 0 ? url.length() : url.indexOf('#');
        int question = url.indexOf('?') < 0 || url.indexOf('?') > end ? end : url.indexOf('?');
        int slash = isHttps ? url.indexOf('/', SCHEME.length()) : -1;
        int path = slash < 0 || slash > question ? question : slash;
        if (!isHttps || path <= SCHEME.length() || !Printable.isText(url)) {
            throw new IllegalArgumentException("not an https URL as it is sent");
        }
        String authority = url.substring(SCHEME.length(), path);
        if (authority.indexOf('@') >= 0) throw new IllegalArgumentException("the URL has a user");
        return new RequestTarget(
            authority, path == question ? "/" : url.substring(path, question),
            question == end ? "" : url.substring(question + 1, end));
    }
}
