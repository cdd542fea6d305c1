import t from 'tap';
import { isAddressRange, refusedAddress } from '../../../src/core/notify/address-policy.ts';

t.test('rejects link-local, metadata and unspecified addresses in any spelling', async (t) => {
  for (const address of [
    '169.254.169.254',
    '169.254.0.1',
    '0.0.0.0',
    '0.1.2.3',
    '255.255.255.255',
    '224.0.0.1',
    '168.63.129.16',
    '100.100.100.200',
    '192.0.0.192',
    '::',
    'fe80::1',
    'fe80::1%eth0',
    'ff02::1',
    'fd00:ec2::254',
    'FD00:EC2:0:0:0:0:0:254',
    'fd20:ce::254',
    '::ffff:169.254.169.254',
    '::ffff:a9fe:a9fe',
    '::169.254.169.254',
    '64:ff9b::169.254.169.254',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b:1::169.254.169.254',
    '64:ff9b:1:a9fe:a9:fe00::', // with a prefix of 48 bits
    '::ffff:0:169.254.169.254',
    '2001:0:a9fe:a9fe::1', // the server of a Teredo tunnel
    '2001:0:808:808:0:0:5601:5601', // and its client, inverted
    'fe00::5efe:169.254.169.254',
    'fd12::200:5efe:169.254.169.254',
    'fd00:ec2::23',
    'fd00:42::42',
    '2002:a9fe:a9fe::1',
    '::ffff:0.0.0.0',
    'nonsense',
  ])
    t.type(refusedAddress(address, []), 'string', address);
});

t.test('accepts loopback, private and public addresses', async (t) => {
  for (const address of [
    '127.0.0.1',
    '127.9.9.9',
    '::1',
    '10.0.0.1',
    '172.16.3.4',
    '192.168.1.1',
    '100.64.0.1',
    'fd12:3456::1',
    '203.0.113.7',
    '8.8.8.8',
    '2001:4860:4860::8888',
    '::ffff:127.0.0.1',
    '::ffff:10.0.0.1',
  ])
    t.equal(refusedAddress(address, []), null, address);
});

t.test('allows listed addresses and no others', async (t) => {
  t.equal(refusedAddress('169.254.169.254', ['169.254.169.254']), null);
  t.equal(refusedAddress('::ffff:169.254.169.254', ['169.254.169.254']), null);
  t.equal(refusedAddress('169.254.7.7', ['169.254.0.0/16']), null);
  t.equal(refusedAddress('fe80::5', ['fe80::/10']), null);
  t.type(refusedAddress('169.254.169.253', ['169.254.169.254']), 'string');
  t.type(refusedAddress('fe80::5', ['169.254.0.0/16']), 'string');
  const teredo = '2001:0:a00:1::5601:5601'; // by the server 10.0.0.1 to the client 169.254.169.254
  t.type(refusedAddress(teredo, ['10.0.0.1']), 'string', 'one of two embedded addresses is not enough');
  t.equal(refusedAddress(teredo, ['169.254.169.254']), null);
  t.equal(refusedAddress(teredo, [teredo]), null, 'the whole address is allowed');
  t.ok(['10.0.0.1', '10.0.0.0/8', 'fe80::/10', '::1'].every(isAddressRange));
  t.notOk(['10.0.0.0/33', 'host', '', '10.0.0.0/'].some(isAddressRange));
});
