package org.attestgate.trustclient;

import java.io.IOException;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import javax.net.ssl.TrustManager;

/**
 * Requests with proofs to one gateway over {@link java.net.HttpURLConnection}. Create another after each enrolment. Any
 * number of threads may use it.
 */
public final class GatewayClient {
    private final String origin;
    private final HttpsClient http;
    private final AttestedClient client;

    /**
     * Creates a client.
     *
     * @param origin the URL of the gateway without a path, for example {@code https://api.example.org}
     * @param trust decides which servers are trusted. Null for the system's authorities.
     */
    public GatewayClient(String origin, EnrolledPhone phone, TrustManager[] trust) throws GeneralSecurityException {
        this.origin = origin;
        http = new HttpsClient(phone.identity().sslContext(trust).getSocketFactory());
        client = new AttestedClient(phone.hardwareKey());
    }

    /**
     * Sends a request.
     *
     * @param target the path, percent-encoded as it is sent, and the query if there is one
     * @param fields all fields of the request, with Content-Type if there is content
     * @param content the content, or null
     * @param isIdempotent whether the service may execute the request twice
     */
    public HttpsClient.Response send(
        String method, String target, List<AttestedRequest.Field> fields, byte[] content, boolean isIdempotent)
        throws IOException {
        AttestedRequest.Content described =
            content == null ? AttestedRequest.Content.NONE : AttestedRequest.Content.bytes(content);
        AttestedRequest request =
            new AttestedRequest(method, RequestTarget.parse(origin + target), fields, described);
        return client.perform(request, isIdempotent, new AttestedClient.Transport<HttpsClient.Response>() {
            @Override
            public GatewayAnswer fetchChallenge() throws IOException {
                return http.send("GET", origin + ProofSession.CHALLENGE_PATH, Collections.emptyList(), null).answer();
            }

            @Override
            public HttpsClient.Response send(ProofFields proof) throws IOException {
                List<AttestedRequest.Field> lines = new ArrayList<>(fields);
                lines.addAll(proof.lines());
                return http.send(method, origin + target, lines, content);
            }

            @Override
            public GatewayAnswer parse(HttpsClient.Response response) {
                return response.answer();
            }
        });
    }
}
