import { described, flag, required } from '../../setup/command.ts';
import { format, passphraseFile } from '../../setup/command-options.ts';

export const newKeyCommand = described({
  name: 'new',
  about: 'create an Ed25519 key pair in minisign format',
  inputs: {
    file: required('<file>', 'file to write the secret key to; the public key is written to FILE.pub'),
    passphrase: flag('--no-passphrase', 'do not encrypt the secret key'),
    passphraseFile,
    format,
  },
  help: `The passphrase comes from --passphrase-file, WAYBILL_KEY_PASSPHRASE or the
terminal. No file is overwritten. See docs/signatures.md.`,
});

export const signCommand = described({
  name: 'sign',
  about: 'sign the manifest of a bundle, which covers all of its files',
  inputs: {
    directory: required('<directory>', 'directory of the bundle'),
    key: required('--key <file>', 'secret key'),
    passphraseFile,
    format,
  },
  help: `Checks every file against the manifest, and writes manifest.json.minisig. A
missing manifest is created, and missing digests are added. The passphrase comes
from --passphrase-file, WAYBILL_KEY_PASSPHRASE or the terminal. See
docs/signatures.md.

Examples:
  waybill sign ./site --key site.key
  minisign -Vm site/manifest.json -p site.key.pub`,
});
