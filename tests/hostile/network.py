"""The network, in every way that Python offers. See tests/hostile/gather.py."""


def connect():
    """ended: the code tried to resolve a name (127.0.0.1)"""
    import socket

    socket.create_connection(("127.0.0.1", 22), timeout=1)


def connect_by_the_c_module():
    """ended: the code tried to open a network socket"""
    import _socket

    _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM).connect(("127.0.0.1", 22))


def ask_dns():
    """ended: the code tried to resolve a name (example.org)"""
    import socket

    return socket.getaddrinfo("example.org", 443)


def ask_dns_the_old_way():
    """ended: the code tried to resolve a name (example.org)"""
    import socket

    return socket.gethostbyname("example.org")


def send_a_datagram():
    """ended: the code tried to open a network socket"""
    import socket

    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"secret", ("8.8.8.8", 53))


def listen():
    """ended: the code tried to open a network socket"""
    import socket

    socket.create_server(("127.0.0.1", 0))


def fetch_a_page():
    """ended: the code tried to open a URL (http://127.0.0.1:8000/)"""
    import urllib.request

    return urllib.request.urlopen("http://127.0.0.1:8000/", timeout=1).read()


def post_to_a_host():
    """ended: the code tried to connect to a server (127.0.0.1)"""
    import http.client

    http.client.HTTPConnection("127.0.0.1", 80, timeout=1).request("POST", "/", b"secret")


def send_mail():
    """ended: the code tried to connect to a mail server"""
    import smtplib

    smtplib.SMTP("127.0.0.1")


def talk_to_docker():
    """ended: the code tried to connect a socket (/var/run/docker.sock)"""
    import socket

    socket.socketpair()[0].connect("/var/run/docker.sock")


def open_the_socket_of_the_worker():
    """ended: the code tried to use the worker's own socket"""
    with open(3, "wb", closefd=False) as pool:
        pool.write(b"\0\0\0\1x")


def write_to_the_socket_of_the_worker():
    """ended: is not a reply"""
    import os

    os.write(3, b"\0\0\0\1x")
    return "forged"


def close_the_connection():
    """ended: its connection to the pool"""
    import os

    os.close(3)


def close_every_descriptor():
    """ended: its connection to the pool"""
    import os

    os.closerange(0, 1024)
