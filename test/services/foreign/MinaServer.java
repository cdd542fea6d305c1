import java.nio.file.Path;
import java.security.PublicKey;
import java.util.List;
import org.apache.sshd.common.config.keys.AuthorizedKeyEntry;
import org.apache.sshd.common.config.keys.KeyUtils;
import org.apache.sshd.common.file.virtualfs.VirtualFileSystemFactory;
import org.apache.sshd.server.SshServer;
import org.apache.sshd.server.keyprovider.SimpleGeneratorHostKeyProvider;
import org.apache.sshd.sftp.server.SftpSubsystemFactory;

/** Arguments: the port, the directory that is served, the file of the one public key, that of the host key. */
public class MinaServer {
    public static void main(String[] args) throws Exception {
        PublicKey known = AuthorizedKeyEntry.readAuthorizedKeys(Path.of(args[2])).get(0)
            .resolvePublicKey(null, null);
        SshServer server = SshServer.setUpDefaultServer();
        server.setHost("127.0.0.1");
        server.setPort(Integer.parseInt(args[0]));
        SimpleGeneratorHostKeyProvider hostKeys = new SimpleGeneratorHostKeyProvider(Path.of(args[3]));
        hostKeys.setAlgorithm("RSA");
        server.setKeyPairProvider(hostKeys);
        server.setPublickeyAuthenticator((user, key, session) -> KeyUtils.compareKeys(known, key));
        server.setSubsystemFactories(List.of(new SftpSubsystemFactory()));
        server.setFileSystemFactory(new VirtualFileSystemFactory(Path.of(args[1])));
        server.start();
        Thread.currentThread().join();
    }
}
