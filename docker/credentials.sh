#!/bin/sh
# Make what the nodes and their clients trust: an authority, a certificate per node, the nodes'
# secret, an administrator's first key.
#   credentials.sh NODE …
# What is there already stays as it is, so this may run before every start, for further nodes, and
# for a certificate that was removed because it ends soon. In $CONFIG is what nodes read, in
# $SECRETS what they need not know: the authority's key and the administrator's.
# A file that others are made by or go with is written last and moved to its name: where it is,
# all of its kind is.
set -eu
umask 077
config=${CONFIG:-/config}
secrets=${SECRETS:-/secrets}
request=$secrets/request
trap 'rm -f "$request" "$request.cnf"' EXIT

# settings EXTENSION… on standard output: those of a request, without the system's defaults
settings() {
  printf '%s\n' '[req]' 'distinguished_name = name' 'prompt = no' '[name]' '[extensions]' "$@"
}

# key_and_request NAME KEY
key_and_request() {
  openssl req -new -config "$request.cnf" -subj "/CN=$1" -newkey ec \
    -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$2" -out "$request"
}

authority() {
  settings 'basicConstraints = critical, CA:true, pathlen:0' \
    'keyUsage = critical, keyCertSign, cRLSign' 'subjectKeyIdentifier = hash' >"$request.cnf"
  key_and_request "Hornbeam's nodes" "$secrets/authority.key"
  openssl x509 -req -in "$request" -signkey "$secrets/authority.key" -days 3650 \
    -extfile "$request.cnf" -extensions extensions -out "$config/authority.pem.new"
  mv "$config/authority.pem.new" "$config/authority.pem"
}

# A node is a server to clients; among themselves nodes are both.
certificate() {
  settings 'basicConstraints = critical, CA:false' 'keyUsage = critical, digitalSignature' \
    'extendedKeyUsage = serverAuth, clientAuth' 'subjectKeyIdentifier = hash' \
    'authorityKeyIdentifier = keyid' \
    "subjectAltName = DNS:$1, DNS:localhost, IP:127.0.0.1" >"$request.cnf"
  key_and_request "$1" "$config/$1.key"
  openssl x509 -req -in "$request" -CA "$config/authority.pem" -CAkey "$secrets/authority.key" \
    -set_serial "0x$(openssl rand -hex 16)" -days 730 \
    -extfile "$request.cnf" -extensions extensions -out "$config/$1.pem.new"
  mv "$config/$1.pem.new" "$config/$1.pem"
}

secret_settings() {
  made=$(hornbeam keys bootstrap --json)
  field key >"$secrets/administrator.key"
  {
    printf 'bootstrap_key = "%s"\n' "$(field bootstrap_key)"
    printf 'node_secret = "%s"\n' "$(openssl rand -hex 32)"
  } >"$config/hornbeam.toml.new"
  mv "$config/hornbeam.toml.new" "$config/hornbeam.toml"
}

# field NAME of the JSON in $made
field() {
  printf '%s\n' "$made" | sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"
}

test -e "$config/authority.pem" || authority
for node in "$@"; do
  test -e "$config/$node.pem" || certificate "$node"
done
test -e "$config/hornbeam.toml" || secret_settings

echo "The administrator's key is in $secrets/administrator.key,"
echo "the authority that clients trust in $config/authority.pem."
