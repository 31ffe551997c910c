package org.attestgate.trustclient;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import okhttp3.Interceptor;
import okhttp3.MediaType;
import okhttp3.Protocol;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import okhttp3.ResponseBody;
import org.attestgate.trustclient.okhttp.ProofInterceptor;
import org.attestgate.trustclient.software.SoftwareKeyMint;
import org.attestgate.trustclient.software.SoftwareKeystore;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public class ProofInterceptorTest {
    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();
    private final long[] counter = {0};
    private AttestedClient client;

    @Before
    public void makeClient() throws Exception {
        SoftwareKeystore keystore = new SoftwareKeystore(
            folder.newFolder(), new SoftwareKeyMint(folder.newFolder(), "org.example.app"));
        keystore.generateKey("key", Attestor.Purpose.PROOFS, new byte[32]);
        client = new AttestedClient(new HardwareKey(keystore, "key", () -> ++counter[0]), () -> Samples.TIME);
    }

    /** Returns what the interceptor sends for a request. Every answer has a challenge. */
    private static List<Request> sent(ProofInterceptor interceptor, Request request) throws Exception {
        List<Request> sent = new ArrayList<>();
        Interceptor.Chain chain = (Interceptor.Chain) Proxy.newProxyInstance(
            Interceptor.class.getClassLoader(), new Class<?>[] {Interceptor.Chain.class}, (self, method, arguments) -> {
                if (method.getName().equals("request")) return request;
                Request proceeding = (Request) arguments[0];
                sent.add(proceeding);
                return new Response.Builder().request(proceeding).protocol(Protocol.HTTP_2).code(204).message("")
                    .header("Accept-Signature", Samples.acceptSignature("challenge", ""))
                    .body(ResponseBody.create(null, new byte[0])).build();
            });
        interceptor.intercept(chain).close();
        return sent;
    }

    private static Request get(String url) {
        return new Request.Builder().url(url).build();
    }

    @Test
    public void requestsToTheGatewayHaveProofs() throws Exception {
        ProofInterceptor interceptor = new ProofInterceptor(client, "https://api.example.org");
        List<Request> sent = sent(interceptor, get("https://API.example.org:443/a?b"));
        assertEquals("https://api.example.org" + ProofSession.CHALLENGE_PATH, sent.get(0).url().toString());
        assertNull(sent.get(0).header("Signature"));
        assertTrue(sent.get(1).header("Signature").startsWith("attest=:"));
        assertEquals("1", sent.get(1).header("Attest-Proof-Counter"));
    }

    @Test
    public void requestsToOtherOriginsPassUnchanged() throws Exception {
        ProofInterceptor interceptor = new ProofInterceptor(
            client, Arrays.asList("https://api.example.org", "https://api.example.org:8443/"), request -> false);
        for (String url : Arrays.asList(
            "http://api.example.org/", "https://api.example.org:444/", "https://api.example.org.evil.example/",
            "https://evil.example/https://api.example.org/", "https://api.example.org@evil.example/",
            "https://xapi.example.org/", "https://api.example.org./")) {
            Request request = new Request.Builder().url(url)
                .post(RequestBody.create(MediaType.get("text/plain"), "content")).build();
            List<Request> sent = sent(interceptor, request);
            assertEquals(url, 1, sent.size());
            assertSame(url, request, sent.get(0));
        }
        assertEquals("no counter is spent", 0, counter[0]);
        assertEquals(2, sent(interceptor, get("https://api.example.org:8443/a")).size());
    }

    @Test
    public void anOriginIsHTTPSWithoutAPath() {
        for (String origin : Arrays.asList(
            "", "api.example.org", "http://api.example.org", "https://api.example.org/v1", "https://api.example.org?a",
            "https://user@api.example.org", "https://api.example.org#a")) {
            assertThrows(origin, IllegalArgumentException.class, () -> new ProofInterceptor(client, origin));
        }
    }
}
