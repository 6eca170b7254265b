//! Where sockets are found: by fd, by id, and by the endpoint in the stack.

use nearwire_stack::EndpointId;

use crate::id::SocketId;
use crate::socket::Socket;

/// See the module. Ids are those of all engines of a process; each has the sockets that belong to it.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// By fd: the index of the socket plus 1; 0: none of ours.
    by_fd: Vec<u32>,
    places: Vec<Option<Socket>>,
    /// Places that can be given out again.
    free: Vec<u32>,
    by_endpoint: Vec<SocketId>,
}

impl Table {
    /// The socket that an fd names.
    #[inline]
    pub(crate) fn find(&self, fd: i32) -> Option<SocketId> {
        let place = self.by_fd.get(usize::try_from(fd).ok()?)?;
        place.checked_sub(1).map(SocketId::new)
    }

    #[inline]
    pub(crate) fn get(&self, id: SocketId) -> Option<&Socket> {
        self.places.get(id.index())?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.places.get_mut(id.index())?.as_mut()
    }

    /// All sockets.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.places.iter().flatten()
    }

    pub(crate) fn sockets_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        self.places.iter_mut().flatten()
    }

    /// Places, with a socket or without.
    pub(crate) const fn len(&self) -> usize {
        self.places.len()
    }

    /// Puts a socket into its place.
    pub(crate) fn put(&mut self, id: SocketId, socket: Socket) {
        self.reserve(id);
        self.places[id.index()] = Some(socket);
    }

    /// A place is in use by something that is no socket here.
    pub(crate) fn reserve(&mut self, id: SocketId) {
        if self.places.len() <= id.index() {
            self.places.resize_with(id.index() + 1, || None);
        }
    }

    /// Takes a socket out of its place.
    pub(crate) fn take(&mut self, id: SocketId) -> Option<Socket> {
        self.places.get_mut(id.index())?.take()
    }

    /// A place for a new socket; in the first engine.
    pub(crate) fn new_place(&mut self) -> SocketId {
        SocketId::new(self.free.pop().unwrap_or(self.places.len() as u32))
    }

    /// The place of a socket that was closed can be given out again; in the first engine.
    pub(crate) fn free_place(&mut self, id: SocketId) {
        self.free.push(id.index() as u32);
    }

    /// An fd names a socket from now on.
    pub(crate) fn name(&mut self, fd: i32, id: SocketId) {
        let Ok(at) = usize::try_from(fd) else { return };
        if self.by_fd.len() <= at {
            self.by_fd.resize(at + 1, 0);
        }
        self.by_fd[at] = id.index() as u32 + 1;
    }

    /// An fd names nothing here.
    pub(crate) fn unname(&mut self, fd: i32) {
        if let Some(place) = usize::try_from(fd).ok().and_then(|at| self.by_fd.get_mut(at)) {
            *place = 0;
        }
    }

    /// An fd that names a socket.
    pub(crate) fn fd_of(&self, id: SocketId) -> Option<i32> {
        let at = self.by_fd.iter().position(|place| *place == id.index() as u32 + 1)?;
        i32::try_from(at).ok()
    }

    /// All fds that name sockets are below.
    pub(crate) const fn fds_end(&self) -> i32 {
        self.by_fd.len() as i32
    }

    /// An endpoint belongs to a socket.
    pub(crate) fn own(&mut self, id: SocketId, endpoint: EndpointId) {
        if self.by_endpoint.len() <= endpoint.index() {
            self.by_endpoint.resize(endpoint.index() + 1, id);
        }
        self.by_endpoint[endpoint.index()] = id;
    }

    /// The socket that an endpoint belongs to.
    #[inline]
    pub(crate) fn owner(&self, endpoint: EndpointId) -> Option<SocketId> {
        let id = *self.by_endpoint.get(endpoint.index())?;
        (self.get(id)?.endpoint() == Some(endpoint)).then_some(id)
    }
}
