package org.attestgate.trustclient;

/** An enrolment request. It needs TLS that authenticates the server, without a client certificate. */
public final class EnrolmentRequest {
    public enum Endpoint {
        NONCE("nonce"),
        INITIALIZATION("instance-initialization"),
        KEY_BINDING("key-binding");

        private final String path;

        Endpoint(String path) {
            this.path = path;
        }
    }

    private final Endpoint endpoint;
    private final EnrolmentServiceAddress service;
    private final byte[] content;

    EnrolmentRequest(Endpoint endpoint, EnrolmentServiceAddress service, byte[] content) {
        this.endpoint = endpoint;
        this.service = service;
        this.content = content;
    }

    public Endpoint endpoint() {
        return endpoint;
    }

    public String method() {
        return content == null ? "GET" : "POST";
    }

    public String url() {
        return service.url() + "/" + endpoint.path;
    }

    /** JSON, to be sent with {@code Content-Type: application/json}. Null for a request without content. */
    public byte[] content() {
        return content;
    }
}
