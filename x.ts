import { startSshd } from './test/services/sshd.ts';
import fs from 'node:fs';
const s = await startSshd({ teardown: () => undefined } as never);
fs.writeFileSync('/tmp/sp/sshd.json', JSON.stringify(s));
for (const n of ['g','5000']) fs.writeFileSync(`/tmp/sp/${n}/sftp.yml`, `pipelines:\n  - id: bench\n    source: {backend: local, path: ./source}\n    destinations:\n      - {id: out, backend: sftp, host: ${s.host}, port: ${s.port}, user: ${s.user}, path: "${s.root}/ours-${n}", ssh_key_file: "${s.clientKeyFile}", known_hosts_file: "${s.knownHostsFile}"}\n`);
setTimeout(()=>process.exit(), 400000);
