package org.attestgate.trustclient;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public class FileCounterTest {
    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();
    private File file;

    @Before
    public void chooseFile() {
        file = new File(folder.getRoot(), "counter");
    }

    @Test
    public void valuesContinueAfterEachStop() throws IOException {
        try (FileCounter counter = FileCounter.create(file)) {
            assertEquals(1, counter.next());
        }
        for (long expected = 2; expected < 20; expected += 2) {
            try (FileCounter counter = FileCounter.open(file)) {
                assertEquals(expected, counter.next());
                assertEquals(expected + 1, counter.next());
            }
        }
        try (FileCounter counter = FileCounter.create(file)) {
            assertEquals(1, counter.next());
        }
    }

    @Test
    public void eachValueIsInTheFileBeforeItIsGivenOut() throws IOException {
        try (FileCounter counter = FileCounter.create(file)) {
            for (int i = 0; i < 50; i++) {
                long value = counter.next();
                File copy = new File(folder.getRoot(), "copy");
                Files.write(copy.toPath(), Files.readAllBytes(file.toPath()));
                try (FileCounter other = FileCounter.open(copy)) {
                    assertEquals(value + 1, other.next());
                }
            }
        }
    }

    @Test
    public void aTornWriteDestroysNoValueThatWasGivenOut() throws IOException {
        try (FileCounter counter = FileCounter.create(file)) {
            for (int i = 0; i < 10; i++) counter.next();
        }
        byte[] before = Files.readAllBytes(file.toPath());
        for (int written = 1; written < 16; written++) {
            // Value 11 belongs into the second place.
            byte[] torn = before.clone();
            byte[] place = ByteBuffer.allocate(16).putLong(11).putLong(~11L).array();
            System.arraycopy(place, 0, torn, 16, written);
            Files.write(file.toPath(), torn);
            try (FileCounter counter = FileCounter.open(file)) {
                assertEquals(11, counter.next());
            }
        }
    }

    @Test
    public void withoutAReadableValueTheKeyIsLost() throws IOException {
        assertLost();
        Files.write(file.toPath(), new byte[0]);
        assertLost();
        Files.write(file.toPath(), new byte[32]);
        assertLost();
        Files.write(file.toPath(), ByteBuffer.allocate(16).putLong(-5).putLong(~-5L).array());
        assertLost();
    }

    private void assertLost() {
        AttestorFault fault = assertThrows(AttestorFault.class, () -> FileCounter.open(file));
        assertEquals(AttestorFault.Reason.KEY_LOST, fault.reason());
    }

    @Test
    public void theLastValueIsThatOfTheProtocol() throws IOException {
        FileCounter.create(file).close();
        try (RandomAccessFile writer = new RandomAccessFile(file, "rw")) {
            writer.write(ByteBuffer.allocate(16).putLong(0xffff_fffeL).putLong(~0xffff_fffeL).array());
        }
        try (FileCounter counter = FileCounter.open(file)) {
            assertEquals(0xffff_ffffL, counter.next());
            assertThrows(AttestorFault.class, counter::next);
        }
    }

    @Test
    public void aFileIsOpenedOnce() throws IOException {
        try (FileCounter counter = FileCounter.create(file)) {
            assertThrows(IOException.class, () -> FileCounter.open(file));
            assertEquals(1, counter.next());
        }
    }

    @Test
    public void threadsGetEachValueOnce() throws Exception {
        Set<Long> values = ConcurrentHashMap.newKeySet();
        try (FileCounter counter = FileCounter.create(file)) {
            Set<Thread> threads = new HashSet<>();
            for (int i = 0; i < 8; i++) {
                Thread thread = new Thread(() -> {
                    for (int j = 0; j < 25; j++) {
                        // An interrupted thread must not close the file for the others.
                        Thread.currentThread().interrupt();
                        try {
                            assertTrue(values.add(counter.next()));
                        } catch (IOException error) {
                            throw new AssertionError(error);
                        }
                    }
                });
                threads.add(thread);
                thread.start();
            }
            for (Thread thread : threads) thread.join();
        }
        assertEquals(200, values.size());
    }
}
