package org.attestgate.trustclient.okhttp;

import java.io.IOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import okhttp3.HttpUrl;
import okhttp3.Interceptor;
import okhttp3.MediaType;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import okio.Buffer;
import org.attestgate.trustclient.AttestedClient;
import org.attestgate.trustclient.AttestedRequest;
import org.attestgate.trustclient.GatewayAnswer;
import org.attestgate.trustclient.ProofFields;
import org.attestgate.trustclient.ProofSession;
import org.attestgate.trustclient.RequestTarget;

/**
 * Adds proofs to the requests of an {@code OkHttpClient} for one gateway, and sends a request again where that is safe
 * and may help. Requests to other origins pass unchanged.
 *
 * <p>Add it with {@code addInterceptor}, as the last one: it must see what is sent. Set {@code
 * retryOnConnectionFailure(false)} and {@code followRedirects(false)}, because OkHttp repeats the same proof.
 */
public final class ProofInterceptor implements Interceptor {
    /** Length limit of a request's content in bytes, which is read before it is sent. */
    public static final long CONTENT_LIMIT = 16L << 20;

    private final AttestedClient client;
    private final Set<HttpUrl> origins = new HashSet<>();
    private final Predicate<Request> isIdempotent;

    /**
     * Creates an interceptor.
     *
     * @param origins the URLs of the gateway without a path, for example {@code https://api.example.org}
     * @param isIdempotent returns whether the service may execute a request twice
     */
    public ProofInterceptor(AttestedClient client, Collection<String> origins, Predicate<Request> isIdempotent) {
        this.client = client;
        for (String origin : origins) {
            HttpUrl url = HttpUrl.get(origin);
            if (!url.isHttps() || !url.equals(origin(url))) {
                throw new IllegalArgumentException("not https://host[:port]: " + origin);
            }
            this.origins.add(url);
        }
        this.isIdempotent = isIdempotent;
    }

    /** Creates an interceptor for one origin that lets only GET and HEAD be executed twice. */
    public ProofInterceptor(AttestedClient client, String origin) {
        this(
            client, Collections.singleton(origin),
            request -> request.method().equals("GET") || request.method().equals("HEAD"));
    }

    @Override
    public Response intercept(Chain chain) throws IOException {
        Request request = chain.request();
        if (!origins.contains(origin(request.url()))) return chain.proceed(request);
        byte[] content = content(request.body());
        Request complete = content == null ? request : withContent(request, content);
        try {
            return client.perform(described(complete, content), isIdempotent.test(request), new Calls(chain, complete));
        } catch (IllegalArgumentException fault) {
            // OkHttp lets any other exception end the app.
            throw new IOException("the request cannot have a proof", fault);
        }
    }

    private static HttpUrl origin(HttpUrl url) {
        return new HttpUrl.Builder().scheme(url.scheme()).host(url.host()).port(url.port()).build();
    }

    /** Returns the content of a request, or null if it has none. */
    private static byte[] content(RequestBody body) throws IOException {
        if (body == null) return null;
        if (body.contentLength() > CONTENT_LIMIT) throw new IOException("the content is too long");
        Buffer buffer = new Buffer();
        body.writeTo(buffer);
        if (buffer.size() > CONTENT_LIMIT) throw new IOException("the content is too long");
        return buffer.readByteArray();
    }

    /** Returns the request with the Content-Type that OkHttp would add behind this interceptor. */
    private static Request withContent(Request request, byte[] content) {
        MediaType type = request.body().contentType();
        Request.Builder builder = request.newBuilder().method(request.method(), RequestBody.create(null, content));
        if (type != null) builder.header("Content-Type", type.toString());
        return builder.build();
    }

    private static AttestedRequest described(Request request, byte[] content) {
        List<AttestedRequest.Field> fields = new ArrayList<>();
        for (String name : request.headers().names()) {
            for (String value : request.headers(name)) fields.add(new AttestedRequest.Field(name, value));
        }
        return new AttestedRequest(
            request.method(), RequestTarget.parse(request.url().toString()), fields,
            // Over HTTP/2 OkHttp sends even an empty body as content, which then needs a digest.
            content == null ? AttestedRequest.Content.NONE : AttestedRequest.Content.sha256(sha256(content)));
    }

    private static byte[] sha256(byte[] content) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(content);
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("every Java platform has SHA-256", error);
        }
    }

    /** The calls of one request. */
    private static final class Calls implements AttestedClient.Transport<Response> {
        private final Chain chain;
        private final Request request;

        Calls(Chain chain, Request request) {
            this.chain = chain;
            this.request = request;
        }

        @Override
        public GatewayAnswer fetchChallenge() throws IOException {
            HttpUrl url = request.url().newBuilder().encodedPath(ProofSession.CHALLENGE_PATH).query(null).build();
            try (Response response = chain.proceed(new Request.Builder().url(url).build())) {
                return parse(response);
            }
        }

        @Override
        public Response send(ProofFields proof) throws IOException {
            Request.Builder builder = request.newBuilder();
            for (AttestedRequest.Field line : proof.lines()) builder.header(line.name(), line.value());
            return chain.proceed(builder.build());
        }

        @Override
        public GatewayAnswer parse(Response response) throws IOException {
            boolean mayBeDenial = response.code() >= 400;
            byte[] content =
                mayBeDenial ? response.peekBody(GatewayAnswer.DENIAL_LIMIT + 1).bytes() : new byte[0];
            return new GatewayAnswer(
                response.code(), response.headers("Accept-Signature"), response.header("Date"), content);
        }

        @Override
        public void discard(Response response) {
            response.close();
        }
    }
}
