package org.attestgate.trustclient;

/** The address of an enrolment service. */
public final class EnrolmentServiceAddress {
    private static final String SCHEME = "https://";
    private static final int LENGTH_LIMIT = 1_024;

    private final String url;
    private final String provider;

    /** Creates the address of a service whose own URL is the one at which it is reached. */
    public EnrolmentServiceAddress(String url) {
        this(url, withoutSlash(url));
    }

    /**
     * Creates an address.
     *
     * @param url {@code https://host[:port][/path]} of unreserved characters and {@code :/[]%}. A slash at its end is
     *     removed.
     * @param provider the service's own URL: the audience of key-binding tokens. The service compares it byte by byte.
     * @throws IllegalArgumentException for another form
     */
    public EnrolmentServiceAddress(String url, String provider) {
        this.url = withoutSlash(url);
        this.provider = provider;
        if (!isAdmitted(this.url) || !isAdmitted(provider)) {
            throw new IllegalArgumentException("not a URL of a service");
        }
    }

    /** The base URL of the endpoints, without a slash at its end. */
    public String url() {
        return url;
    }

    public String provider() {
        return provider;
    }

    private static String withoutSlash(String url) {
        return url.endsWith("/") ? url.substring(0, url.length() - 1) : url;
    }

    private static boolean isAdmitted(String text) {
        if (!text.startsWith(SCHEME) || text.length() > LENGTH_LIMIT) return false;
        return text.substring(SCHEME.length()).matches("[A-Za-z0-9._~:/\\[\\]%-]*[A-Za-z0-9._~:\\[\\]%-]");
    }
}
