package org.attestgate.trustclient;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;

/** The directory in which an enrolment client keeps the phone and its counters. */
final class PhoneDirectory {
    private static final long LENGTH_LIMIT = 1 << 20;

    private final File directory;
    private final File file;

    PhoneDirectory(File directory) throws IOException {
        Files.createDirectories(directory.toPath());
        this.directory = directory;
        file = new File(directory, "phone.json");
    }

    /** Loads the phone. One that was stored for another service, or cannot be decoded, enrols again. */
    Phone load(EnrolmentServiceAddress service) throws IOException {
        Phone phone = null;
        if (file.exists() && file.length() <= LENGTH_LIMIT) {
            phone = Phone.parse(Bytes.text(Files.readAllBytes(file.toPath())));
        }
        boolean isOurs = phone != null && phone.record().service().url().equals(service.url())
            && phone.record().service().provider().equals(service.provider());
        return isOurs ? phone : new Phone(new EnrolmentRecord(service));
    }

    /** Stores the phone durably before it returns. */
    void store(Phone phone) throws IOException {
        File next = new File(directory, "phone.json.next");
        try (FileOutputStream stream = new FileOutputStream(next)) {
            stream.write(Bytes.utf8(phone.json()));
            stream.getFD().sync();
        }
        Files.move(next.toPath(), file.toPath(), StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** The counter file of the hardware key with this tag. */
    File counter(String tag) {
        return new File(directory, tag + ".counter");
    }

    void deleteCounter(String tag) throws IOException {
        Files.deleteIfExists(counter(tag).toPath());
    }
}
