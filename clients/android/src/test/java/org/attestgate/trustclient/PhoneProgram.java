package org.attestgate.trustclient;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;
import okhttp3.Dispatcher;
import okhttp3.MediaType;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import org.attestgate.trustclient.okhttp.ProofInterceptor;
import org.attestgate.trustclient.software.SoftwareKeyMint;
import org.attestgate.trustclient.software.SoftwareKeystore;

/**
 * A software phone for the integration tests: {@code PhoneProgram DIRECTORY COMMAND ...}. The directory has its
 * keystore and what the client keeps; {@code DIRECTORY/../keymint} attests the keys of all phones.
 *
 * <pre>
 * root PACKAGE                                          makes keymint/root.pem
 * enrol|rotate PACKAGE SERVICE CA ORIGIN [OPTION...]    prints "enrolled" and the key, or the failure; then the
 *                                                       result of a request, if the phone is enrolled
 * attest|instances|revoke PACKAGE SERVICE CA ORIGIN ID|- OPTION...
 *                                                       prints what the listener for enrolled devices answers
 * requests PACKAGE SERVICE CA ORIGIN STACK COUNT THREADS METHOD TARGET
 *                                                       prints how often each result came
 * </pre>
 *
 * Options: {@code form=NONCE}, {@code attested}, {@code os=160000}, {@code patch=202610}, {@code version=1}, {@code
 * skew=SECONDS}, {@code lose=N} (the answer to request N), {@code admission} (prints a thumbprint and reads a token),
 * {@code integrity} and {@code integrity=each} (the same with a nonce), {@code devices=URL}, {@code signals=JSON}.
 * Stacks: {@code url} (HttpURLConnection), {@code okhttp}.
 */
public final class PhoneProgram {
    private static final BufferedReader INPUT =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private final File directory;
    private final SoftwareKeyMint keyMint;

    private PhoneProgram(File directory, String packageName) throws IOException, GeneralSecurityException {
        this.directory = directory;
        keyMint = new SoftwareKeyMint(new File(directory.getAbsoluteFile().getParentFile(), "keymint"), packageName);
    }

    public static void main(String[] arguments) throws Exception {
        PhoneProgram program = new PhoneProgram(new File(arguments[0]), arguments[2]);
        List<String> rest = Arrays.asList(arguments).subList(3, arguments.length);
        switch (arguments[1]) {
            case "root": System.out.println(program.keyMint.root()); break;
            case "enrol": program.enrol(false, rest); break;
            case "rotate": program.enrol(true, rest); break;
            case "attest": case "instances": case "revoke": program.devices(arguments[1], rest); break;
            case "requests": program.requests(rest); break;
            default: throw new IllegalArgumentException(arguments[1]);
        }
    }

    private EnrolmentClient client(String service, String authority, List<String> options) throws Exception {
        EnrolmentSettings settings = new EnrolmentSettings(new EnrolmentServiceAddress(service));
        int os = 160_000;
        int patch = 202_610;
        int version = 1;
        long skew = 0;
        int lost = 0;
        for (String option : options) {
            String value = option.substring(option.indexOf('=') + 1);
            if (option.startsWith("form=")) settings = settings.withForm(ClientDataForm.valueOf(value));
            if (option.startsWith("integrity")) {
                settings = settings.withPlayIntegrity(PhoneProgram::tokenFromInput, value.equals("each"));
            }
            if (option.equals("attested")) settings = settings.withAttestedCertificateKey();
            if (option.startsWith("devices=")) settings = settings.withDevices(value);
            if (option.startsWith("os=")) os = Integer.parseInt(value);
            if (option.startsWith("patch=")) patch = Integer.parseInt(value);
            if (option.startsWith("version=")) version = Integer.parseInt(value);
            if (option.startsWith("lose=")) lost = Integer.parseInt(value);
            if (option.startsWith("skew=")) skew = Long.parseLong(value);
        }
        keyMint.update(os, patch, version);
        long ahead = skew;
        TrustManager[] trust = trust(authority);
        HttpsClient http = HttpsClient.trusting(trust);
        int[] rest = {lost};
        EnrolmentClient.Transport transport = request -> {
            // Unlike Android's, the JDK's HttpURLConnection knows no PATCH.
            boolean isPatch = request.method().equals("PATCH");
            EnrolmentAnswer answer = isPatch ? overOkHttp(request, trust) : http.send(request);
            if (--rest[0] == 0) throw new IOException("the answer is lost");
            return answer;
        };
        return new EnrolmentClient(
            settings, new SoftwareKeystore(new File(directory, "keystore"), keyMint), new File(directory, "client"),
            transport, () -> System.currentTimeMillis() / 1000 + ahead);
    }

    private static EnrolmentAnswer overOkHttp(EnrolmentRequest request, TrustManager[] trust) throws IOException {
        Request.Builder builder = new Request.Builder().url(request.url())
            .method(request.method(), RequestBody.create((MediaType) null, request.content()));
        for (AttestedRequest.Field field : request.fields()) builder.addHeader(field.name(), field.value());
        try {
            SSLSocketFactory sockets = request.identity().sslContext(trust).getSocketFactory();
            OkHttpClient client =
                new OkHttpClient.Builder().sslSocketFactory(sockets, (X509TrustManager) trust[0])
                    .retryOnConnectionFailure(false).build();
            try (Response response = client.newCall(builder.build()).execute()) {
                return new EnrolmentAnswer(
                    response.code(), response.header("Date"), response.header("Retry-After"),
                    response.headers("Accept-Signature"), response.body().bytes());
            } finally {
                client.dispatcher().executorService().shutdown();
                client.connectionPool().evictAll();
            }
        } catch (GeneralSecurityException error) {
            throw new IOException(error);
        }
    }

    private void devices(String command, List<String> arguments) throws Exception {
        List<String> options = arguments.subList(4, arguments.size());
        try {
            DeviceClient client = client(arguments.get(0), arguments.get(1), options).devices();
            switch (command) {
                case "attest":
                    String signals = null;
                    for (String option : options) {
                        if (option.startsWith("signals=")) signals = option.substring("signals=".length());
                    }
                    AttestedPosture posture = client.attest(signals);
                    System.out.println(posture.json() + " " + posture.deviceToken());
                    break;
                case "instances":
                    for (DeviceInstance each : client.instances()) {
                        String current = each.isCurrent() ? " current" : "";
                        System.out.println(each.id() + " " + each.status() + current);
                    }
                    break;
                default:
                    client.revoke(arguments.get(3));
                    System.out.println("revoked");
            }
        } catch (EnrolmentFailure failure) {
            System.out.println(failure.reason() + " " + failure.getMessage());
        } catch (IOException error) {
            System.out.println(AttestedClient.needsEnrolment(error) + " " + error);
        }
        // Threads of OkHttp would keep the program for minutes.
        System.exit(0);
    }

    private void enrol(boolean isRotation, List<String> arguments) throws Exception {
        EnrolmentClient client =
            client(arguments.get(0), arguments.get(1), arguments.subList(3, arguments.size()));
        try {
            EnrolmentClient.Admission admission = arguments.contains("admission")
                ? PhoneProgram::tokenFromInput : thumbprint -> null;
            EnrolledPhone phone = isRotation ? client.rotate(admission) : client.enrol(admission);
            System.out.println("enrolled " + phone.hardwareKey().keyID() + " " + request(phone, arguments));
        } catch (EnrolmentFailure failure) {
            EnrolledPhone phone = client.phone();
            String result = phone == null ? "" : " " + request(phone, arguments);
            System.out.println(failure.reason() + " " + failure.getMessage() + result);
        } catch (IOException error) {
            System.out.println(error.getMessage());
        }
    }

    /** Prints the thumbprint or nonce, and reads the token from the standard input. */
    private static String tokenFromInput(String subject) throws IOException {
        System.out.println(subject);
        return INPUT.readLine();
    }

    private static String request(EnrolledPhone phone, List<String> arguments) throws Exception {
        return urlConnection(phone, trust(arguments.get(1)), arguments.get(2), "/", "GET", null).call();
    }

    private void requests(List<String> arguments) throws Exception {
        TrustManager[] trust = trust(arguments.get(1));
        EnrolmentClient enrolment = client(arguments.get(0), arguments.get(1), Collections.emptyList());
        EnrolledPhone phone = enrolment.phone();
        if (phone == null) throw new IOException("not enrolled");
        String url = arguments.get(2) + arguments.get(7);
        String method = arguments.get(6);
        byte[] content = method.equals("GET") ? null : Bytes.utf8(method.equals("EMPTY") ? "" : "{\"dose\":1}");
        Callable<String> request = arguments.get(3).equals("okhttp")
            ? okHttp(phone, trust, arguments.get(2), url, content)
            : urlConnection(phone, trust, arguments.get(2), arguments.get(7), method, content);
        ExecutorService threads = Executors.newFixedThreadPool(Integer.parseInt(arguments.get(5)));
        List<Future<String>> results =
            threads.invokeAll(Collections.nCopies(Integer.parseInt(arguments.get(4)), request));
        threads.shutdown();
        Map<String, Integer> counts = new TreeMap<>();
        for (Future<String> result : results) counts.merge(result.get(), 1, Integer::sum);
        System.out.println(counts);
        System.exit(0);
    }

    private static Callable<String> urlConnection(
        EnrolledPhone phone, TrustManager[] trust, String origin, String target, String method, byte[] content)
        throws GeneralSecurityException {
        GatewayClient client = new GatewayClient(origin, phone, trust);
        List<AttestedRequest.Field> fields = content == null
            ? Collections.emptyList()
            : Collections.singletonList(new AttestedRequest.Field("Content-Type", "application/json"));
        return () -> {
            try {
                HttpsClient.Response response = client.send(method, target, fields, content, false);
                return result(response.status(), response.answer());
            } catch (AttestedClientError error) {
                return "no challenge: " + error.answer();
            } catch (IOException error) {
                return error.toString();
            }
        };
    }

    private static Callable<String> okHttp(
        EnrolledPhone phone, TrustManager[] trust, String origin, String url, byte[] content)
        throws GeneralSecurityException {
        Dispatcher dispatcher = new Dispatcher();
        dispatcher.setMaxRequestsPerHost(256);
        OkHttpClient client = new OkHttpClient.Builder()
            .sslSocketFactory(phone.identity().sslContext(trust).getSocketFactory(), (X509TrustManager) trust[0])
            .dispatcher(dispatcher).followRedirects(false).retryOnConnectionFailure(false)
            .addInterceptor(new ProofInterceptor(new AttestedClient(phone.hardwareKey()), origin))
            .build();
        Request.Builder builder = new Request.Builder().url(url);
        if (content != null) builder.post(RequestBody.create(MediaType.get("application/json"), content));
        Request request = builder.build();
        return () -> {
            try (Response response = client.newCall(request).execute()) {
                return result(response.code(), new GatewayAnswer(
                    response.code(), response.headers("Accept-Signature"), response.header("Date"),
                    response.body().bytes())) + " " + response.protocol();
            } catch (IOException error) {
                return error.toString();
            }
        };
    }

    private static String result(int status, GatewayAnswer answer) {
        return answer.denial() == null ? String.valueOf(status) : status + " " + answer.denial();
    }

    /** Returns trust in one authority. */
    private static TrustManager[] trust(String authority) throws IOException, GeneralSecurityException {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (InputStream stream = new FileInputStream(authority)) {
            int count = 0;
            for (Certificate each : CertificateFactory.getInstance("X.509").generateCertificates(stream)) {
                trusted.setCertificateEntry("authority-" + count++, each);
            }
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(trusted);
        return factory.getTrustManagers();
    }
}
