package org.attestgate.trustclient;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URL;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManager;

/** The platform's {@link java.net.HttpURLConnection}, for HTTP/1.1. Any number of threads may use it. */
public final class HttpsClient implements EnrolmentClient.Transport {
    /** Length limit of a response's content in bytes. */
    public static final int CONTENT_LIMIT = 8 << 20;

    private static final int CONNECT_TIMEOUT = 15_000;
    /** Longer than the gateway waits for a service. */
    private static final int READ_TIMEOUT = 75_000;

    /** A response with its complete content. */
    public static final class Response {
        private final int status;
        private final Map<String, List<String>> fields;
        private final byte[] content;

        private Response(int status, Map<String, List<String>> fields, byte[] content) {
            this.status = status;
            this.fields = fields;
            this.content = content;
        }

        public int status() {
            return status;
        }

        public byte[] content() {
            return content;
        }

        /** Returns the first value of a field, or null. */
        public String field(String name) {
            List<String> values = fields(name);
            return values.isEmpty() ? null : values.get(0);
        }

        /** Returns the values of all lines of a field. */
        public List<String> fields(String name) {
            List<String> values = new ArrayList<>();
            for (Map.Entry<String, List<String>> field : fields.entrySet()) {
                if (name.equalsIgnoreCase(field.getKey())) values.addAll(field.getValue());
            }
            return values;
        }

        /** Returns the statements about proofs. */
        public GatewayAnswer answer() {
            return new GatewayAnswer(status, fields("Accept-Signature"), field("Date"), content);
        }
    }

    private final SSLSocketFactory sockets;
    private final TrustManager[] trust;
    // Connections are kept for one socket factory, so the newest certificate's is kept too.
    private ClientIdentity identity;
    private SSLSocketFactory identitySockets;

    /**
     * Creates a client.
     *
     * @param sockets decides on certificates, as {@link ClientIdentity#sslContext} does. For enrolment the system's:
     *     {@code (SSLSocketFactory) SSLSocketFactory.getDefault()}.
     */
    public HttpsClient(SSLSocketFactory sockets) {
        this(sockets, null);
    }

    private HttpsClient(SSLSocketFactory sockets, TrustManager[] trust) {
        this.sockets = sockets;
        this.trust = trust;
    }

    /**
     * Creates a client for enrolment that trusts other servers than the system.
     *
     * @param trust decides which servers are trusted
     */
    public static HttpsClient trusting(TrustManager[] trust) throws GeneralSecurityException {
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust, null);
        return new HttpsClient(context.getSocketFactory(), trust);
    }

    /**
     * Sends a request.
     *
     * @param content the content, or null. With content there must be a Content-Type, or the platform adds one.
     */
    public Response send(String method, String url, List<AttestedRequest.Field> fields, byte[] content)
        throws IOException {
        return send(sockets, method, url, fields, content);
    }

    private static Response send(
        SSLSocketFactory sockets, String method, String url, List<AttestedRequest.Field> fields, byte[] content)
        throws IOException {
        HttpsURLConnection connection = (HttpsURLConnection) new URL(url).openConnection();
        connection.setSSLSocketFactory(sockets);
        connection.setRequestMethod(method);
        connection.setInstanceFollowRedirects(false);
        connection.setUseCaches(false);
        connection.setConnectTimeout(CONNECT_TIMEOUT);
        connection.setReadTimeout(READ_TIMEOUT);
        for (AttestedRequest.Field field : fields) connection.addRequestProperty(field.name(), field.value());
        if (content != null && content.length > 0) {
            // No streaming mode: Java then throws instead of giving out a response with status 401.
            connection.setDoOutput(true);
            try (OutputStream stream = connection.getOutputStream()) {
                stream.write(content);
            }
        }
        int status = connection.getResponseCode();
        try (InputStream stream = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
            return new Response(status, connection.getHeaderFields(), read(stream));
        }
    }

    @Override
    public EnrolmentAnswer send(EnrolmentRequest request) throws IOException {
        SSLSocketFactory chosen = request.identity() == null ? sockets : sockets(request.identity());
        Response response = send(chosen, request.method(), request.url(), request.fields(), request.content());
        return new EnrolmentAnswer(
            response.status(), response.field("Date"), response.field("Retry-After"),
            response.fields("Accept-Signature"), response.content());
    }

    private synchronized SSLSocketFactory sockets(ClientIdentity presented) throws IOException {
        if (identity != presented) {
            try {
                identitySockets = presented.sslContext(trust).getSocketFactory();
            } catch (GeneralSecurityException error) {
                throw new IOException(error);
            }
            identity = presented;
        }
        return identitySockets;
    }

    private static byte[] read(InputStream stream) throws IOException {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        if (stream == null) return content.toByteArray();
        byte[] part = new byte[8192];
        for (int count = stream.read(part); count >= 0; count = stream.read(part)) {
            if (content.size() + count > CONTENT_LIMIT) throw new IOException("the response is too long");
            content.write(part, 0, count);
        }
        return content.toByteArray();
    }
}
